import { expect, test } from 'vitest';
import { openStage } from '../work/reviews/stage.ts';

test('people see a review without the secrets in its findings', async () => {
  const room = await openStage({
    agents: {
      dev: () => 'Here it is.',
      qa: () => '[major] src/a.ts:3 the key abc-secret-1 is in the code\nREVISE',
    },
    channel: { review: { patience: 1 } },
  });
  const clean = (text: string): string => text.replaceAll('abc-secret-1', '[secret]');
  expect(room.app.reviews.reviewView('console:demo', clean)).toBeNull();
  await room.command('/review start dev qa write it');
  await room.settled();
  const shown = room.app.reviews.reviewView('console:demo', clean);
  expect(shown).toMatchObject({ primary: 'dev', reviewer: 'qa', waiting: { asksPeople: true } });
  expect(shown?.findings[0]).toMatchObject({ place: 'src/a.ts:3', title: 'the key [secret] is in the code' });
  expect(shown?.iterations[0]).toMatchObject({ verdict: 'revise', opened: 1, hasEnded: true });
  expect(JSON.stringify(shown)).not.toContain('abc-secret-1');
  await room.stop();
});
