import { showQuestion } from './attention.tsx';
import { auditOpen, drawerOpen, goToBeginning, goToEnd, helpOpen, tab, view } from '../state.ts';
import { pressButton } from '../sending.ts';
import { toggleTheme } from './theme.ts';
import { useEffect, useRef } from 'preact/hooks';
import type { JSX } from 'preact';
import { SignButton } from '../parts.tsx';

/** Every shortcut: the key as people see it, and what it does. Single keys work outside of text fields. */
export const SHORTCUTS: readonly { readonly keys: string; readonly what: string }[] = [
  { keys: 'Enter', what: 'Send the message' },
  { keys: 'Shift + Enter', what: 'New line' },
  { keys: '/', what: 'Write a command' },
  { keys: 'c', what: 'Go to the composer' },
  { keys: 'Alt + A', what: 'Go to what an agent asks, in any channel' },
  { keys: 'a  r', what: 'There: allow, reject' },
  { keys: 'Alt + S', what: 'Skip the turn under way' },
  { keys: 'Alt + X', what: 'Stop everything' },
  { keys: 'Alt + P', what: 'Pause or resume the floor' },
  { keys: '1  2  3', what: 'Floor, turns, journal' },
  { keys: '4', what: 'Tool calls of all agents' },
  { keys: 'Home', what: 'Go to the beginning' },
  { keys: 'End', what: 'Go to the newest message' },
  { keys: 't', what: 'Light or dark' },
  { keys: '?', what: 'This list' },
  { keys: 'Esc', what: 'Close what is open' },
];

/** Listens for the shortcuts. */
export function startShortcuts(): void {
  addEventListener('keydown', (event) => {
    if (event.isComposing || event.ctrlKey || event.metaKey) return;
    const act = event.altKey ? WITH_ALT[event.code] : isTyping(event) ? undefined : PLAIN[event.key];
    if (event.key === 'Escape') closeAll();
    if (act === undefined) return;
    event.preventDefault();
    act();
  });
}

/** Skips the turn that is drawn now. */
export function skipTurn(): void {
  pressButton('/floor skip');
}

/** Stops, whatever is going on. */
export function stopAll(): void {
  pressButton('/stop');
}

/** Pauses a floor, or lets a paused one go on. */
export function pauseOrResume(): void {
  pressButton(view.value?.condition === 'paused' ? '/floor resume' : '/floor pause');
}

const WITH_ALT: Readonly<Record<string, () => void>> = {
  KeyA: showQuestion,
  KeyS: skipTurn,
  KeyX: stopAll,
  KeyP: pauseOrResume,
};

const PLAIN: Readonly<Record<string, () => void>> = {
  '/': focusComposer,
  c: focusComposer,
  t: toggleTheme,
  '?': () => (helpOpen.value = true),
  Home: () => (goToBeginning.value += 1),
  End: () => (goToEnd.value += 1),
  1: () => show('floor'),
  2: () => show('turns'),
  3: () => show('journal'),
  4: () => (auditOpen.value = !auditOpen.value),
};

function show(which: typeof tab.value): void {
  auditOpen.value = false;
  tab.value = which;
  drawerOpen.value = true;
}

function closeAll(): void {
  helpOpen.value = false;
  drawerOpen.value = false;
  auditOpen.value = false;
}

function focusComposer(): void {
  document.querySelector<HTMLTextAreaElement>('[data-testid="composer"]')?.focus();
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
        {SHORTCUTS.map(({ keys, what }) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </dialog>
  );
}
