import { signal } from '@preact/signals';
import { store, stored } from './stored.ts';
import type { JSX } from 'preact';

/** Why this browser has no access to the page; `null` if it has access, or before the server was asked. */
export const refusedAccess = signal<null | 'no-link' | 'used-link'>(null);

const STORED_AS = 'conch-page';
let key = takeKey();
let wasRefused = false;
/** The page's session secret in memory, for a browser that stores nothing. There a reload needs another link. */
let secretInMemory = stored(STORED_AS) ?? '';

/** Returns the page's session secret, which the server needs besides the cookie. Empty without a session. */
export function pagePart(): string {
  return stored(STORED_AS) ?? secretInMemory;
}

/**
 * Uses the link's key, if there is one. Returns whether this browser has access. Rejects if the server is unreachable.
 */
export async function letIn(): Promise<boolean> {
  if (key !== null) {
    const answer = await fetch('/session', { method: 'POST', body: JSON.stringify({ key }) });
    key = null;
    wasRefused = !answer.ok;
    if (answer.ok) {
      secretInMemory = ((await answer.json()) as { readonly part: string }).part;
      // The browser tells other tabs only of a changed text, and all sessions have the same secret.
      store(STORED_AS, '');
      store(STORED_AS, secretInMemory);
    }
  }
  const { status } = await fetch('/session', { headers: { 'Conch-Page': pagePart() }, cache: 'no-store' });
  const isRefused = status === 401;
  wasRefused &&= isRefused;
  refusedAccess.value = isRefused ? (wasRefused ? 'used-link' : 'no-link') : null;
  return !isRefused;
}

/** Calls `run` when another tab of this browser got access by a link. */
export function onLetIn(run: () => void): void {
  addEventListener('storage', ({ key: name, newValue }) => {
    if (name === STORED_AS && newValue !== '') run();
  });
}

/** Returns the link's key from the page's address, and removes it there: a copied address then contains no key. */
function takeKey(): string | null {
  const address = new URL(location.href);
  const linkKey = address.searchParams.get('key');
  if (linkKey === null) return null;
  address.searchParams.delete('key');
  history.replaceState(null, '', address);
  return linkKey;
}

const WHY = {
  'no-link': 'This browser has no access. Access ends after 30 days.',
  'used-link': 'This link was used already, or is older than one hour.',
} as const;

/** Shown instead of the page to a browser without access: says how to get a link. */
export function NoAccess({ why }: { readonly why: NonNullable<typeof refusedAccess.value> }): JSX.Element {
  return (
    <main class="no-access" data-testid="no-access">
      <h1>Conch</h1>
      <p role="alert">{WHY[why]}</p>
      <p>Run this command in Conch’s folder and open the link that it prints:</p>
      <pre>npx conch open</pre>
      <p>In a clone of the repository:</p>
      <pre>npm run conch -- open</pre>
      <p>A link works once, for one browser. Access lasts 30 days.</p>
    </main>
  );
}
