import type { Step } from './scene.ts';

/** Whether a note may be put in here: at the start, or after a whole sentence outside a code block and a list. */
export function interruptible(streamed: string): boolean {
  if (streamed === '') return true;
  const lastLine = streamed.slice(streamed.lastIndexOf('\n') + 1);
  return !insideFence(streamed) && /[.!?:]$/.test(streamed) && !/^\d+\.$/.test(lastLine);
}

/**
 * What is left of some steps once `said` stands in the channel. `streamed` is what had been generated of the message under
 * way; what of it was never posted is said again, a code block that was cut starts anew. Other steps whose text was said are
 * left out, and work is done once.
 */
export function remainder(steps: readonly Step[], streamed: string, said: readonly string[]): readonly Step[] {
  if (streamed === '') return steps.flatMap((step) => left(step, said));
  const posted = streamed.slice(
    0,
    said.reduce((end, text) => end + lengthOf(streamed.slice(end), text), 0),
  );
  const from = insideFence(posted) ? posted.lastIndexOf('```') : posted.length;
  const [first, ...rest] = steps;
  const missing = streamed.slice(from);
  if (first?.do === 'say') return [{ ...first, text: `${missing}${first.text}`.trimStart() }, ...rest];
  return missing.trim() === '' ? steps : [{ do: 'say', text: missing }, ...steps];
}

/** How much of the beginning of `streamed` a posted text covers; a code block that was cut may have been closed in it. */
function lengthOf(streamed: string, text: string): number {
  const start = streamed.length - streamed.trimStart().length;
  const found = [text.trim(), text.trim().replace(/\n```$/, '')].find((whole) => streamed.startsWith(whole, start));
  return found === undefined || found === '' ? 0 : start + found.length;
}

function left(step: Step, said: readonly string[]): readonly Step[] {
  if (step.do === 'work') return [];
  if (step.do !== 'say') return [step];
  const covered = said.reduce((end, text) => end + lengthOf(step.text.slice(end), text), 0);
  const text = covered === 0 ? step.text : step.text.slice(covered).trimStart();
  return text.trim() === '' ? [] : [{ ...step, text }];
}

function insideFence(text: string): boolean {
  return (text.match(/^```/gm)?.length ?? 0) % 2 === 1;
}
