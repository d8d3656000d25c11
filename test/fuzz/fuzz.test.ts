import { describe, expect, test } from 'vitest';
import { mutated } from './bytes.ts';
import { DOORS } from './doors.ts';
import { fuzz } from './loop.ts';
import { randomOf } from '../kill/random.ts';

const PER_DOOR = 40;
const LIMIT_MS = 60_000;

describe('the program with all entry points open', () => {
  test('T1 survives fuzzed inputs at every entry point, and answers afterwards', async () => {
    const { sent, findings, faults } = await fuzz({ seed: 1, inputs: PER_DOOR * DOORS.length, limitMs: LIMIT_MS });
    expect(findings).toEqual([]);
    expect(faults).toEqual([]);
    expect(Object.entries(sent).filter(([, count]) => count === 0)).toEqual([]);
  }, 300_000);
});

describe('the inputs of the fuzzer', () => {
  test('are the same for the same seed', () => {
    const bytes = Buffer.from('GET / HTTP/1.1\r\n\r\n');
    const made = () => Array.from({ length: 50 }, (_, seed) => mutated(randomOf(seed), bytes).toString('latin1'));
    expect(made()).toEqual(made());
    expect(new Set(made()).size).toBeGreaterThan(25);
  });
});
