import { renameSync } from 'node:fs';
import { afterEach, describe, test } from 'vitest';
import { rig as consoleRig } from '../../adapters/console/stage.ts';
import { rig as discordRig } from '../../adapters/discord/stage.ts';
import { begin, newDisk, seeEqual } from '../../adapters/program.ts';
import type { ProgramOptions } from '../../adapters/program.ts';
import type { Rig, Stage } from '../../adapters/rig.ts';
import { rig as slackRig } from '../../adapters/slack/stage.ts';
import { repository, ticketText } from './stage.ts';

const closing: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

/** A crew on a platform, and a ticket that Ann made of her own message. */
async function ticketOn(rig: Rig, optionsOn: (stage: Stage) => ProgramOptions = () => ({})) {
  const stage = await rig.open();
  closing.push(() => stage.close());
  const disk = newDisk();
  closing.push(() => disk[Symbol.dispose]());
  const crew = { id: 'web', repo: repository({ 'c-1': ticketText('c-1') }), workers: 1, test: 'true' };
  const backend = { kind: 'command', command: 'unused' };
  const program = await begin(stage, disk, rig.capabilities, { ...optionsOn(stage), crews: [{ ...crew, backend }] });
  closing.push(() => program.stop());
  const message = await stage.write('ann', 'The list lacks a header');
  await seeEqual(() => program.message(message) !== null, true);
  await stage.command('ann', `/crew admit ${message}`);
  const made = async () =>
    (await stage.read()).flatMap(({ text }) => /made the ticket ([\w-]+) of/.exec(text)?.[1] ?? []);
  await seeEqual(async () => (await made()).length, 1);
  const [ticket = ''] = await made();
  const answers = async (thread?: string) =>
    (await stage.read(thread)).flatMap(({ kind, text }) => (kind === 'conch' && / wait/.test(text) ? [text] : []));
  return { stage, program, message, ticket, answers, repo: crew.repo };
}

describe.each([consoleRig, discordRig])('on $name, a reply to a message that became a ticket', (rig) => {
  test('makes this ticket wait for another ticket, and is answered once', async () => {
    const { stage, message, ticket, answers } = await ticketOn(rig);
    stage.duplicate();
    await stage.write('ann', 'Only after c-1', { replyTo: message });
    await seeEqual(async () => (await answers()).length, 1);
    await stage.write('ann', 'after c-99', { replyTo: message });
    await seeEqual(answers, [
      `🎫 ${ticket} waits for c-1, as ${stage.nameOf('ann')} wants`,
      `🎫 ${stage.nameOf('ann')} wants ${ticket} to wait for c-99. It does not: there is no ticket c-99`,
    ]);
  });
});

test('a reply whose message was not stored before a crash is answered once', async () => {
  const { stage, program, message, ticket, answers } = await ticketOn(consoleRig);
  const author = { id: stage.idOf('ann'), name: stage.nameOf('ann') };
  const more = { sentAt: 1, order: '9', addressed: [], attachments: [], replyTo: message };
  const reply = { id: 'console:900', channel: program.channel, author, text: 'after c-99', ...more };
  await program.heard(reply);
  await seeEqual(async () => (await answers()).length, 1);
  await program.heard(reply);
  await program.heard({ ...reply, id: 'console:901', text: 'after c-98' });
  const refusal = (dep: string) =>
    `🎫 ${author.name} wants ${ticket} to wait for ${dep}. It does not: there is no ticket ${dep}`;
  await seeEqual(answers, [refusal('c-99'), refusal('c-98')]);
});

test.each([consoleRig, discordRig, slackRig])(
  'on $name, a reply is declined when 100 earlier replies have no answer',
  async (rig) => {
    const { stage, program, message, ticket, answers, repo } = await ticketOn(rig);
    const author = { id: stage.idOf('ann'), name: stage.nameOf('ann') };
    const more = { sentAt: 1, order: '9', addressed: [], attachments: [], replyTo: message };
    const write = (id: string) => program.heard({ id, channel: program.channel, author, text: 'after c-99', ...more });
    // Replies have no answer while the tickets cannot be read.
    renameSync(repo, `${repo}-moved`);
    for (let number = 1; number <= 100; number += 1) await write(`reply-${number}`);
    for (const _time of [1, 2]) await write('reply-101');
    const refusal = `🎫 ${author.name} wants ${ticket} to wait for c-99. It does not: Conch has not answered 100 earlier replies about tickets yet.`;
    const why = / Reply again later; \/.*crew ps shows what is wrong$/;
    await seeEqual(async () => (await answers()).map((text) => text.replace(why, '')), [refusal]);
    renameSync(`${repo}-moved`, repo);
  },
);

describe.each([discordRig, slackRig])('on $name, a message in the thread of a message that became a ticket', (rig) => {
  test.each(['own', 'parent'])('makes the ticket wait, with threads "%s"', async (threads) => {
    const { stage, message, ticket, answers } = await ticketOn(rig, () => ({ turnConfig: { threads } }));
    const thread = await stage.thread?.('ann', message);
    if (thread === undefined) throw new Error('impossible: no threads');
    await stage.write('ann', 'Only after c-1', { thread: thread.id });
    const place = threads === 'own' ? thread.id : undefined;
    await seeEqual(() => answers(place), [`🎫 ${ticket} waits for c-1, as ${stage.nameOf('ann')} wants`]);
  });

  test('is refused without the right, and counts when a role gives its author the right', async () => {
    const { stage, message, ticket, answers } = await ticketOn(rig, (on) => ({
      operators: { users: [on.idOf('ann')], roles: [on.role ?? ''] },
    }));
    const thread = await stage.thread?.('bob', message);
    const place = thread?.id;
    await stage.write('bob', 'after c-1', { thread: thread?.id ?? '' });
    const refused = `🎫 ${stage.nameOf('bob')} wants ${ticket} to wait for c-1. It does not: only operators decide that`;
    await seeEqual(() => answers(place), [refused]);
    stage.makeOperator?.('bob', true);
    await stage.write('bob', 'after c-1', { thread: thread?.id ?? '' });
    await seeEqual(() => answers(place), [refused, `🎫 ${ticket} waits for c-1, as ${stage.nameOf('bob')} wants`]);
  });
});
