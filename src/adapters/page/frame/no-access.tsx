import type { JSX } from 'preact';
import type { refusedAccess } from '../access.ts';

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
