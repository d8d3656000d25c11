import { describe, expect, test } from 'vitest';
import { rig as discordRig } from './discord/stage.ts';
import { seeEqual } from './program.ts';
import { play } from './scene.ts';
import { rig as slackRig } from './slack/stage.ts';

const FINDING = '[major] An empty input is accepted';
const QUESTION = 'The review waits for you';

describe.concurrent.each([discordRig, slackRig])('a review on $name', (rig) => {
  test('is started by a slash command, takes a message, asks people with buttons, and is reported', () =>
    play(
      rig,
      { haste: 10, turnConfig: { humanInterruptMode: 'inject' } },
      async ({ stage, program, says, release }) => {
        const { cast } = program;
        cast.play('dev', { say: 'One.' });
        cast.play('dev', 'pause', { say: 'Two.\nF1: disputed: nobody sends that' });
        cast.play('dev', { say: 'Three.\nF1: disputed: nobody sends that' });
        cast.play('dev', { say: 'F1: fixed' });
        for (let turn = 0; turn < 3; turn += 1) cast.play('qa', { say: `${FINDING}\nREVISE` });
        cast.play('qa', { say: 'It works now.\nPASS' });
        const card = async () => (await stage.card())?.text.split('\n')[0];

        expect(await stage.command('bob', '/review start dev qa 6 write the parser')).toContain('Only operators');
        expect(await stage.command('ann', '/review start dev qa 6 write the parser')).toBe('Dev works, QA reviews.');
        await cast.paused('dev', stage.channel);
        await seeEqual(card, '🔁 2 of 6 · Dev works');
        await says('Use tabs, please.');
        // Dev must receive the message before its answer. Later, the message would start a turn without scripted steps.
        await seeEqual(() => cast.heard('dev').includes('injected: Use tabs, please.'), true);
        release('dev');
        await seeEqual(() => stage.question?.(QUESTION) === null, false);
        const asks = 'a finding was disputed twice: An empty input is accepted';
        await seeEqual(card, `🔁 3 of 6 · waits for your decision: ${asks}`);

        const question = stage.question?.(QUESTION);
        expect(question?.text.split('\n')).toEqual([
          `✋ The review waits for you: ${asks}`,
          `QA: revise: ${FINDING}`,
          'Dev: nobody sends that',
          expect.stringMatching(/^The review ends at \d\d:\d\d UTC if nobody answers\.$/),
        ]);
        expect(question?.buttons).toEqual(['Accept the work', 'Reviewer is right', '5 more', 'Cancel']);
        expect(await question?.press('bob', 'Accept the work')).toContain('Only operators');
        expect(await question?.press('ann', 'Reviewer is right')).toBe('The reviewer is right: the work goes on.');
        await program.rests();
        expect(await question?.press('ann', 'Accept the work')).toContain('That question is closed.');

        await seeEqual(async () => (await card())?.includes('🔁') === true, false);
        const report = (await stage.read()).at(-1);
        expect([report?.kind, report?.text.split('\n')[0]]).toEqual([
          'conch',
          expect.stringMatching(/^✅ Review passed after 4 iterations, [\d.]+ minutes, 0 tokens: It works now\.$/),
        ]);
        expect(report?.text).toContain('4: pass, findings 0 opened, 1 fixed, 0 disputed, 0 reappeared');
        const said = (await stage.read()).filter(({ kind }) => kind === 'agent').map(({ author }) => author);
        expect(said).toEqual(['Dev', 'QA', 'Dev', 'QA', 'Dev', 'QA', 'Dev', 'QA']);
        expect(stage.pings?.() ?? []).toEqual([]);
        const status = await stage.command('ann', '/review status');
        expect(status.split('\n').slice(0, 2)).toEqual(['🔁 4 of 6 · passed: It works now.', 'Task: write the parser']);
      },
    ));

  test('is refused with the reason and what to do, and cancelled by /stop', () =>
    play(rig, { haste: 1 }, async ({ stage, program }) => {
      program.cast.play('dev', 'pause', { say: 'One.' });
      for (const [line, words] of [
        ['/review start dev dev write it', 'One agent cannot review its own work. Name two agents.'],
        ['/review start dev nobody write it', 'There is no agent "nobody"'],
        ['/review status', 'There was no review here.'],
      ] as const)
        expect(await stage.command('ann', line)).toContain(words);
      await stage.command('ann', '/review start dev qa write it');
      await program.cast.paused('dev', stage.channel);
      expect(await stage.command('ann', '/review start qa dev write it')).toContain('A review is open here.');
      await stage.command('ann', '/stop');
      await program.rests();
      expect((await stage.read()).map(({ text }) => text.split('\n')[0])).toEqual([
        '⏹ Stopped Dev. 0 messages kept.',
        expect.stringMatching(/^⏹ Review cancelled after 1 iteration, .*: the floor was stopped$/),
      ]);
    }));
});
