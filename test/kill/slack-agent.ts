import { randomUUID } from 'node:crypto';
import { text } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import { keepPrompt } from './witness.ts';

/** Milliseconds between paragraphs. Each turn of this agent is a unique text, short or long, full of mentions. */
const WORD_MS = 60;

const complete = keepPrompt(await text(process.stdin));
const id = randomUUID();
const paragraphs = Number.parseInt(id.charAt(0), 16) < 4 ? 13 : 1;
for (let number = 1; number <= paragraphs; number += 1) {
  process.stdout.write(
    `<!channel> <@U000000001> @everyone: paragraph ${number} of ${id}. ${'All is well here. '.repeat(30)}\n\n`,
  );
  await pause(WORD_MS);
}
complete();
