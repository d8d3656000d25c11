/**
 * The question or turn that a button was drawn for: an open question, by its key, or a turn, by its store and epoch.
 * While nobody has the floor, `epoch` is the floor's last epoch. Buttons that are not about the floor, such
 * as those of crews, have another number in `epoch`, or 0.
 */
export type DrawnFor =
  | { readonly of: 'question'; readonly key: string }
  | { readonly of: 'turn'; readonly store: string; readonly epoch: number };

/** Returns the `drawnFor` text of a question's buttons. At most 12 characters with the keys that a store makes. */
export function forQuestion(key: string): string {
  return `q${key}`;
}

/** Returns the `drawnFor` text of a turn's buttons. `store`: the store's id. It changes when a backup is restored. */
export function forTurn(store: string, epoch: number): string {
  return `t${store}.${epoch.toString(36)}`;
}

/** Parses a `drawnFor` text. Returns `null` for any other text, such as one from a button of an earlier version. */
export function readDrawnFor(word: string): DrawnFor | null {
  const [, key] = QUESTION.exec(word) ?? [];
  if (key !== undefined) return { of: 'question', key };
  const [, store, epoch] = TURN.exec(word) ?? [];
  return store === undefined || epoch === undefined ? null : { of: 'turn', store, epoch: Number.parseInt(epoch, 36) };
}

const QUESTION = /^q([\w-]{1,64})$/;
const TURN = /^t(\w{1,64})\.([\da-z]{1,10})$/;

/** The reason that the *Discard* button of a failed run gives. A button with this reason ends only a failed run. */
export const DISCARDED = 'discarded';

/** The number that the buttons of a review's question to people carry. */
export function reviewQuestion({ id, iteration }: { readonly id: string; readonly iteration: number }): number {
  return Number(id.slice(id.lastIndexOf('-') + 1)) * REVIEW_SPAN + iteration;
}

/** How many numbers each review has, one for each iteration. */
const REVIEW_SPAN = 1_000;
