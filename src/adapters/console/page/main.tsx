import { render } from 'preact';
import { App } from './app.tsx';
import { connect } from './connection.ts';
import { startClock } from './now.ts';
import { startShortcuts } from './shortcuts.ts';
import { startTheme } from './theme.ts';
import './base.css';
import './frame.css';
import './floor.css';
import './chat.css';
import './panel.css';

const root = document.querySelector('#app');
if (root === null) throw new Error('impossible: the page has no place to draw in');
startTheme();
startClock();
startShortcuts();
connect();
render(<App />, root);
