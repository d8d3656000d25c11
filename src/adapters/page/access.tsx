import { signal } from '@preact/signals';
import type { JSX } from 'preact';

/** Why this browser may not use the page; `null` when it may, or nobody knows yet. */
export const refusedAccess = signal<null | 'no-link' | 'used-link'>(null);

const STORED_AS = 'conch-page';
/** Of the link that the page was opened by; `null` when it was used. */
let key = takeKey();
let wasRefused = false;
/** For a browser that keeps nothing: then a reload needs another link. */
let kept = stored();

/** The part of the session that the page keeps: the server wants it beside the cookie. */
export function pagePart(): string {
  return stored() || kept;
}

/** Whether the server lets this browser in; uses up the key of the link first, if there is one. Rejects when the server is not there. */
export async function letIn(): Promise<boolean> {
  if (key !== null) {
    const answer = await fetch('/session', { method: 'POST', body: JSON.stringify({ key }) });
    key = null;
    wasRefused = !answer.ok;
    if (answer.ok) keep(((await answer.json()) as { readonly part: string }).part);
  }
  const { status } = await fetch('/session', { headers: { 'Conch-Page': pagePart() }, cache: 'no-store' });
  const isRefused = status === 401;
  wasRefused &&= isRefused;
  refusedAccess.value = isRefused ? (wasRefused ? 'used-link' : 'no-link') : null;
  return !isRefused;
}

/** Tells when another tab of this browser was let in. */
export function onLetIn(run: () => void): void {
  addEventListener('storage', (event) => {
    if (event.key === STORED_AS) run();
  });
}

/** Takes the key out of the address: it stands in no history and in no link that somebody copies. */
function takeKey(): string | null {
  const address = new URL(location.href);
  const found = address.searchParams.get('key');
  if (found === null) return null;
  address.searchParams.delete('key');
  history.replaceState(null, '', address);
  return found;
}

function keep(part: string): void {
  kept = part;
  try {
    localStorage.setItem(STORED_AS, part);
  } catch {
    return;
  }
}

function stored(): string {
  try {
    return localStorage.getItem(STORED_AS) ?? '';
  } catch {
    return '';
  }
}

const WHY = {
  'no-link': 'This browser has not been let in, or not for 30 days.',
  'used-link': 'This link was used already, or is older than an hour.',
} as const;

/** In place of the page for a browser that is not let in: says how to get a link. */
export function NoAccess({ why }: { readonly why: NonNullable<typeof refusedAccess.value> }): JSX.Element {
  return (
    <main class="no-access" data-testid="no-access">
      <h1>Conch</h1>
      <p role="alert">{WHY[why]}</p>
      <p>Run this command in the folder where Conch runs, and open the link that it prints:</p>
      <pre>npm run conch -- open</pre>
      <p>A link lets one browser in, once. The browser stays let in for 30 days.</p>
    </main>
  );
}
