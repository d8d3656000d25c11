import { expect, test } from 'vitest';
import { Bound, by } from '../work/runs/bound.ts';

test('why lists the priority that a message gave and the turn that ended without an answer, but no question with the same id', async () => {
  const bound = await new Bound().granted();
  await bound.hears('m1', 'bob', { addressed: ['dev'] });
  await bound.floor(
    { type: 'injected', agent: 'pm', epoch: 1, id: 'm1', outcome: 'injected' },
    { type: 'askTrust', agent: 'pm', id: 'm1', folder: '/repo', detail: '.envrc' },
    { type: 'skip', by },
  );
  const types = bound.store.why('m1').map(({ fact }) => fact.type);
  expect(types).toEqual(expect.arrayContaining(['prioritised', 'turnEnded']));
  expect(types).not.toContain('trustAsked');
});
