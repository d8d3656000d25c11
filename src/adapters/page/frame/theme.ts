import { effect, signal } from '@preact/signals';
import { store, stored } from '../stored.ts';

const STORED_AS = 'conch-theme';
const THEMES = ['system', 'light', 'dark'] as const;
type Theme = (typeof THEMES)[number];

/** What the person chose; `system` follows the machine. */
const theme = signal<Theme>(THEMES.find((each) => each === stored(STORED_AS)) ?? 'system');

/** Draws the page in the chosen theme, now and after every change. */
export function startTheme(): void {
  effect(() => {
    const chosen = theme.value;
    if (chosen === 'system') delete document.documentElement.dataset['theme'];
    else document.documentElement.dataset['theme'] = chosen;
    store(STORED_AS, chosen);
  });
}

/** From what is drawn now to the other one. */
export function toggleTheme(): void {
  theme.value = isDark() ? 'light' : 'dark';
}

function isDark(): boolean {
  if (theme.value !== 'system') return theme.value === 'dark';
  return matchMedia('(prefers-color-scheme: dark)').matches;
}
