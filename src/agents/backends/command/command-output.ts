import { stripVTControlCharacters } from 'node:util';
import { z } from 'zod';
import { BackendError } from '../backend.ts';
import type { FloorTools } from '../../tools/floor-tools.ts';

/** How a command writes its answer: plain text, one JSON object, or one JSON object on each line. */
export type OutputFormat = 'text' | 'json' | 'jsonl';

/** Takes what a command writes, piece by piece, and says it. Both throw a `BackendError` when it is not in its format. */
export type OutputReader = { push(piece: string): void; end(): void };

/** A reader for this format, speaking by these floor tools. */
export function readerOf(format: OutputFormat, floorTools: FloorTools): OutputReader {
  switch (format) {
    case 'text':
      return { push: (piece) => floorTools.text(stripVTControlCharacters(piece)), end: () => {} };
    case 'json':
      return jsonReader(floorTools);
    case 'jsonl':
      return linesReader(floorTools);
  }
}

const answer = z.object({
  text: z.string().nullish(),
  pass: z.boolean().nullish(),
  hand_to: z.string().nullish(),
  wait_for: z.string().nullish(),
  ask: z.object({ agent: z.string(), question: z.string() }).nullish(),
});

function jsonReader(floorTools: FloorTools): OutputReader {
  let whole = '';
  return { push: (piece) => void (whole += piece), end: () => perform(whole, floorTools) };
}

function linesReader(floorTools: FloorTools): OutputReader {
  let rest = '';
  return {
    push(piece) {
      const lines = (rest + piece).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) perform(line, floorTools);
    },
    end: () => perform(rest, floorTools),
  };
}

function perform(json: string, floorTools: FloorTools): void {
  if (json.trim() === '') return;
  const parsed = answer.safeParse(parse(json));
  if (!parsed.success) throw new BackendError(`wrote something else than an answer in JSON: ${start(json)}`);
  const { text, pass, hand_to, wait_for, ask } = parsed.data;
  if (pass === true) return void floorTools.apply('pass', {});
  if (text && !floorTools.over) floorTools.say(text);
  if (wait_for) floorTools.apply('wait_for', { question: wait_for });
  else if (ask) floorTools.apply('ask', ask);
  else if (hand_to) floorTools.apply('hand_to', { agent: hand_to });
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
