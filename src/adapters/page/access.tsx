import { signal } from '@preact/signals';
import { store, stored } from './stored.ts';
import type { JSX } from 'preact';

/** Why this browser may not use the page; `null` when it may, or nobody knows yet. */
export const refusedAccess = signal<null | 'no-link' | 'used-link'>(null);

const STORED_AS = 'conch-page';
/** Of the link that the page was opened by; `null` when it was used. */
let key = takeKey();
let wasRefused = false;
/** For a browser that keeps nothing: then a reload needs another link. */
let kept = stored(STORED_AS) ?? '';

/** The part of the session that the page keeps: the server wants it beside the cookie. */
export function pagePart(): string {
  return stored(STORED_AS) ?? kept;
}

/** Whether the server lets this browser in; uses up the key of the link first, if there is one. Rejects when the server is not there. */
export async function letIn(): Promise<boolean> {
  if (key !== null) {
    const answer = await fetch('/session', { method: 'POST', body: JSON.stringify({ key }) });
    key = null;
    wasRefused = !answer.ok;
    if (answer.ok) {
      kept = ((await answer.json()) as { readonly part: string }).part;
      store(STORED_AS, kept);
    }
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

const WHY = {
  'no-link': 'This browser has no access. Access ends after 30 days.',
  'used-link': 'This link was used already, or is older than one hour.',
} as const;

/** In place of the page for a browser that is not let in: says how to get a link. */
export function NoAccess({ why }: { readonly why: NonNullable<typeof refusedAccess.value> }): JSX.Element {
  return (
    <main class="no-access" data-testid="no-access">
      <h1>Conch</h1>
      <p role="alert">{WHY[why]}</p>
      <p>Run this command in Conch’s folder and open the link that it prints:</p>
      <pre>npm run conch -- open</pre>
      <p>A link works once, for one browser. Access lasts 30 days.</p>
    </main>
  );
}
