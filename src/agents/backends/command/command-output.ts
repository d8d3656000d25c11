import { stripVTControlCharacters } from 'node:util';
import { z } from 'zod';
import { BackendError } from '../backend.ts';
import type { Verbs } from '../../tools/verbs.ts';

/** How a command writes its answer: plain text, one JSON object, or one JSON object on each line. */
export type OutputFormat = 'text' | 'json' | 'jsonl';

/** Takes what a command writes, piece by piece, and says it. Both throw a `BackendError` when it is not in its format. */
export type OutputReader = { push(piece: string): void; end(): void };

/** A reader for this format, speaking by these verbs. */
export function readerOf(format: OutputFormat, verbs: Verbs): OutputReader {
  switch (format) {
    case 'text':
      return { push: (piece) => verbs.text(stripVTControlCharacters(piece)), end: () => {} };
    case 'json':
      return jsonReader(verbs);
    case 'jsonl':
      return linesReader(verbs);
  }
}

const answer = z.object({
  text: z.string().nullish(),
  pass: z.boolean().nullish(),
  hand_to: z.string().nullish(),
  wait_for: z.string().nullish(),
});

function jsonReader(verbs: Verbs): OutputReader {
  let whole = '';
  return { push: (piece) => void (whole += piece), end: () => perform(whole, verbs) };
}

function linesReader(verbs: Verbs): OutputReader {
  let rest = '';
  return {
    push(piece) {
      const lines = (rest + piece).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) perform(line, verbs);
    },
    end: () => perform(rest, verbs),
  };
}

function perform(json: string, verbs: Verbs): void {
  if (json.trim() === '') return;
  const parsed = answer.safeParse(parse(json));
  if (!parsed.success) throw new BackendError(`wrote something else than an answer in JSON: ${start(json)}`);
  const { text, pass, hand_to, wait_for } = parsed.data;
  if (pass === true) return void verbs.apply('pass', {});
  if (text && !verbs.over) verbs.say(text);
  if (wait_for) verbs.apply('wait_for', { question: wait_for });
  else if (hand_to) verbs.apply('hand_to', { agent: hand_to });
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return null;
  }
}

function start(text: string): string {
  const line = stripVTControlCharacters(text).replace(/\s+/g, ' ').trim();
  return line.length > SHOWN ? `${line.slice(0, SHOWN)}…` : line;
}

const SHOWN = 80;
