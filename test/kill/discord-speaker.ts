import { randomBytes } from 'node:crypto';
import { text } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import { keepPrompt } from './witness.ts';

// A command agent with a unique, mostly long text per turn: `node discord-speaker.ts <ms between pieces>`.

const LENGTHS = [120, 700, 2_400, 5_500, 7_400, 9_000];
const PARAGRAPH = 320;
/** Mentions in the texts. They must never notify anybody. */
const PINGS = ['@everyone', '@here', `<@${process.env['PERSON_ID'] ?? '1'}>`, `<@&${process.env['ROLE_ID'] ?? '1'}>`];
const WORDS = 'the floor rests while somebody counts the waves and another one writes them down'.split(' ');

const gapMs = Number(process.argv[2] ?? 0);
const complete = keepPrompt(await text(process.stdin));
const length = LENGTHS[Math.floor(Math.random() * LENGTHS.length)] ?? 0;
for (const piece of pieces(length)) {
  process.stdout.write(piece);
  if (gapMs > 0) await pause(gapMs);
}
complete();

function pieces(wanted: number): readonly string[] {
  const id = randomBytes(5).toString('hex');
  const paragraphs: string[] = [];
  for (let written = 0; written < wanted; written += PARAGRAPH) {
    const number = paragraphs.length + 1;
    const ping = PINGS[number % PINGS.length] ?? '';
    const words = Array.from({ length: 48 }, (_, index) => WORDS[(index * number + written) % WORDS.length]).join(' ');
    paragraphs.push(`${id} paragraph ${number} ${ping} ${words}`.slice(0, PARAGRAPH).trim());
  }
  return paragraphs.map((paragraph, index) => (index === 0 ? paragraph : `\n\n${paragraph}`));
}
