/**
 * What a button was drawn for: an open question, by its key, or a turn of a store, by its epoch. `epoch` is the number of the run for
 * a background run, and the epoch of the last grant while nobody has the floor. A button counts for nothing else.
 */
export type DrawnFor =
  | { readonly of: 'question'; readonly key: string }
  | { readonly of: 'turn'; readonly store: string; readonly epoch: number };

/** The word that the buttons of a question carry. At most 12 characters with the keys that a store makes. */
export function forQuestion(key: string): string {
  return `q${key}`;
}

/** The word that the other buttons carry. `store` is the id of the store, which changes when a backup is restored. */
export function forTurn(store: string, epoch: number): string {
  return `t${store}.${epoch.toString(36)}`;
}

/** Reads such a word; `null` when it is none, as on the buttons of earlier versions. */
export function readDrawnFor(word: string): DrawnFor | null {
  const [, key] = QUESTION.exec(word) ?? [];
  if (key !== undefined) return { of: 'question', key };
  const [, store, epoch] = TURN.exec(word) ?? [];
  return store === undefined || epoch === undefined ? null : { of: 'turn', store, epoch: Number.parseInt(epoch, 36) };
}

const QUESTION = /^q([\w-]{1,64})$/;
const TURN = /^t(\w{1,64})\.([\da-z]{1,10})$/;

/** Why a run that failed is ended by its button: it ends a failed run alone. */
export const DISCARDED = 'discarded';

/** The number of a review's question to people. A button that was drawn for another one counts for nothing. */
export function reviewQuestion({ id, iteration }: { readonly id: string; readonly iteration: number }): number {
  return Number(id.slice(id.lastIndexOf('-') + 1)) * REVIEW_SPAN + iteration;
}

/** More than the iterations of one review. */
const REVIEW_SPAN = 1_000;
