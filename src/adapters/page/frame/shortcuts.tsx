import { useEffect, useRef } from 'preact/hooks';
import type { JSX } from 'preact';
import { canResume } from '../../../turns/commands/read.ts';
import { SignButton } from '../parts.tsx';
import { focusComposer } from '../composer/composer.tsx';
import { pressButton, showBeginning, showEnd } from '../sending.ts';
import { openView, toggleView, drawerOpen, helpOpen, tab, view } from '../state.ts';
import { toggleTheme } from '../stored.ts';
import { showQuestion } from './attention.tsx';

type Shortcut = {
  readonly keys: string;
  readonly purpose: string;
  /**
   * Actions by key. A key with Alt is named by the `code` of its event. Keys without Alt work only outside of text
   * fields.
   */
  readonly acts?: Readonly<Record<string, () => void>>;
};

const SHORTCUTS: readonly Shortcut[] = [
  { keys: 'Enter', purpose: 'Send the message' },
  { keys: 'Shift + Enter', purpose: 'New line' },
  { keys: '/', purpose: 'Write a command', acts: { '/': focusComposer } },
  { keys: 'c', purpose: 'Go to the composer', acts: { c: focusComposer } },
  { keys: 'Alt + A', purpose: 'Go to the next request of any channel', acts: { 'Alt KeyA': showQuestion } },
  { keys: 'a  r', purpose: 'On a request: allow, deny' },
  { keys: 'Alt + S', purpose: 'Skip the turn under way', acts: { 'Alt KeyS': () => pressButton('/floor skip') } },
  { keys: 'Alt + X', purpose: 'Stop everything', acts: { 'Alt KeyX': () => pressButton('/stop') } },
  { keys: 'Alt + P', purpose: 'Pause or resume the floor', acts: { 'Alt KeyP': pauseOrResume } },
  {
    keys: '1  2  3',
    purpose: 'Floor, turns, journal',
    acts: { 1: () => show('floor'), 2: () => show('turns'), 3: () => show('journal') },
  },
  { keys: '4', purpose: 'Tool calls of all agents', acts: { 4: () => toggleView('audit') } },
  { keys: 'Home', purpose: 'Go to the beginning', acts: { Home: showBeginning } },
  { keys: 'End', purpose: 'Go to the newest message', acts: { End: showEnd } },
  { keys: 't', purpose: 'Light or dark', acts: { t: toggleTheme } },
  { keys: '?', purpose: 'This list', acts: { '?': () => (helpOpen.value = true) } },
  { keys: 'Esc', purpose: 'Close what is open' },
];

/** On Apple's keyboards Alt types letters, such as ß and ź. So shortcuts with Alt do not work in text fields there. */
const IS_APPLE = /^Mac|^iP/.test(navigator.platform);

/** Listens for the shortcuts. */
export function startShortcuts(): void {
  addEventListener('keydown', (event) => {
    if (event.isComposing || event.ctrlKey || event.metaKey) return;
    if (event.key === 'Escape') {
      helpOpen.value = drawerOpen.value = false;
      openView.value = null;
    }
    if (isTyping(event) && (!event.altKey || IS_APPLE)) return;
    const key = event.altKey ? `Alt ${event.code}` : event.key;
    const act = SHORTCUTS.find(({ acts = {} }) => Object.hasOwn(acts, key))?.acts?.[key];
    if (act === undefined) return;
    event.preventDefault();
    act();
  });
}

function pauseOrResume(): void {
  pressButton(view.value !== null && canResume(view.value) ? '/floor resume' : '/floor pause');
}

function show(which: typeof tab.value): void {
  openView.value = null;
  tab.value = which;
  drawerOpen.value = true;
}

function isTyping(event: KeyboardEvent): boolean {
  return event.target instanceof HTMLElement && event.target.closest('input, textarea, select') !== null;
}

/** The list of shortcuts, over the page. */
export function Help(): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const open = helpOpen.value;
  useEffect(() => {
    if (open) dialog.current?.showModal();
    else dialog.current?.close();
  }, [open]);
  return (
    <dialog ref={dialog} class="help" aria-labelledby="help-title" onClose={() => (helpOpen.value = false)}>
      <div class="help-head">
        <h2 id="help-title">Keyboard</h2>
        <SignButton icon="close" label="Close" onClick={() => (helpOpen.value = false)} />
      </div>
      <dl>
        {SHORTCUTS.map(({ keys, purpose }) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{purpose}</dd>
          </div>
        ))}
      </dl>
    </dialog>
  );
}
