import { expect, test } from 'vitest';
import { remainder } from '../../../../src/agents/backends/scripted/scripted-backend.ts';

test('T10 paragraphs of a continued answer stay separate', () => {
  const steps = ['One.', '\n\nTwo.', '\n\nThree.'].map((text) => ({ do: 'say', text }) as const);
  const left = (said: readonly string[]): string =>
    remainder(steps, said)
      .map((step) => (step.do === 'say' ? step.text : ''))
      .join('')
      .trim();
  expect(left(['One.'])).toBe('Two.\n\nThree.');
  expect(left([])).toBe('One.\n\nTwo.\n\nThree.');
});
