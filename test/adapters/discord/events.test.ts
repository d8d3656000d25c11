import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ASK_AGAIN_MS } from '../../../src/adapters/delivery/channel-access.ts';
import { commandSet } from '../../../src/adapters/discord/commands.ts';
import { helpText } from '../../../src/turns/commands/read.ts';
import { compareOrder } from '../../../src/turns/floor/evolve.ts';
import { systemTimers } from '../../../src/lib/time.ts';
import type { FloorView } from '../../../src/turns/view.ts';
import type { Timers } from '../../../src/lib/time.ts';
import { createMemory, mustCome, placeOf, rigOf } from './listening.ts';
import type { AdapterRig } from './listening.ts';
import { startDiscord } from './server.ts';
import type { DiscordServer } from './server.ts';

let discord: DiscordServer;
let here: AdapterRig;
const rigs: AdapterRig[] = [];

beforeEach(async () => {
  discord = await startDiscord();
});
afterEach(async () => {
  for (const rig of rigs.splice(0)) await rig.adapter.stop();
  await discord.close();
});

async function started(how: Parameters<typeof rigOf>[1] = {}): Promise<AdapterRig> {
  here = rigOf(discord, how);
  rigs.push(here);
  await here.adapter.start(here.listener.intake, here.queries);
  return here;
}

async function withCommands(how: Parameters<typeof rigOf>[1] = {}): Promise<AdapterRig> {
  await started(how);
  await mustCome('the commands', () => discord.registered(discord.channel).length === commandSet().length);
  return here;
}

const snowflake = (digit: string): string => digit.padEnd(18, '0');

const heard = (): readonly string[] => here.listener.messages.map(({ text }) => text);

describe('a bot in a channel', () => {
  test('passes on new messages, edits and deletions', async () => {
    await started();
    const first = discord.write('ann', discord.channel, 'hello');
    const second = discord.write('ann', discord.channel, 'oh', { replyTo: first.id });
    discord.unfurl(first.id);
    discord.edit(first.id, 'hello all');
    discord.remove(second.id);
    await mustCome('the changes', () => here.listener.changes.length === 2);
    expect(heard()).toEqual(['hello', 'oh']);
    expect(here.listener.changes).toMatchObject([
      { change: 'edited', id: first.id, text: 'hello all', channel: `discord:${discord.channel}` },
      { change: 'deleted', id: second.id },
    ]);
  });

  test('T37 explains once how to get a floor when the bot is mentioned in a channel without a floor', async () => {
    const other = discord.addChannel('elsewhere');
    await started();
    discord.write('ann', other, 'nothing for the bot');
    const own = (): readonly string[] =>
      discord.read(other).flatMap(({ authorId, text }) => (authorId === discord.botUser ? [text] : []));
    for (let time = 0; time < 2; time += 1) discord.write('ann', other, `<@${discord.botUser}> hello`);
    discord.write('ann', discord.channel, 'for the floor');
    await mustCome('the answer', () => own().length > 0 && heard().length === 1);
    expect(own()).toEqual([expect.stringContaining('turnConfig.json')]);
    expect(heard()).toEqual(['for the floor']);
  });

  test('T88 reads the roles and its membership once per guild at the start', async () => {
    const others = Array.from({ length: 10 }, (_, index) => discord.addChannel(`channel-${index}`));
    const asked = (path: RegExp) =>
      discord.requests.filter(({ method, path: at }) => method === 'GET' && path.test(at));
    await started({ places: [discord.channel, ...others].map((channel) => placeOf(channel)) });
    expect([asked(/\/guilds\/\d+\/roles$/).length, asked(/\/guilds\/\d+\/members\/\d+$/).length]).toEqual([1, 1]);
  });

  test('ignores messages of channels that are not configured', async () => {
    const other = discord.addChannel('elsewhere');
    await started();
    discord.write('ann', other, 'not for you');
    discord.write('ann', discord.channel, 'for you');
    await mustCome('the message', () => heard().length === 1);
    expect(heard()).toEqual(['for you']);
  });

  test('ignores its own messages', async () => {
    await started();
    const speaker = { id: 'dev', name: 'dev', avatar: null };
    const post = { outboxId: '1', speaker, text: 'I speak', afterId: null, epoch: 1 };
    const id = await here.adapter.post(`discord:${discord.channel}`, post);
    await here.adapter.post(`discord:${discord.channel}`, { ...post, outboxId: '2', speaker: null });
    discord.write('ann', discord.channel, 'thanks', { replyTo: id });
    await mustCome('the reply', () => heard().length === 1);
    expect(here.listener.messages).toMatchObject([{ text: 'thanks', addressed: ['dev'] }]);
  });

  test('addresses an agent when its role is mentioned', async () => {
    await started({ roles: true });
    const role = discord.roles()['QA Bot'] ?? '';
    discord.write('ann', discord.channel, 'your turn', { mentions: [role] });
    await mustCome('the message', () => heard().length === 1);
    expect(here.listener.messages).toMatchObject([{ text: '@qa your turn', addressed: ['qa'] }]);
  });

  test('retries messages in their order while the intake fails', async () => {
    await started();
    here.listener.trouble.error = new Error('the disk is full');
    discord.write('ann', discord.channel, 'one');
    discord.write('ann', discord.channel, 'two');
    await mustCome('a failure', () => here.lines.some(({ failures }) => failures === 1));
    here.listener.trouble.error = null;
    await mustCome('both', () => heard().length === 2);
    expect(heard()).toEqual(['one', 'two']);
  });

  test('row 33: takes a command or message once when Discord delivers it twice, at once or after a reconnect', async () => {
    await started();
    discord.duplicate();
    discord.write('ann', discord.channel, '!floor skip');
    discord.duplicate('MESSAGE_CREATE', 'after-reconnect');
    discord.write('ann', discord.channel, 'hello');
    await mustCome('the message', () => heard().length === 2);
    discord.dropSockets();
    await mustCome('the return', () => here.listener.notes.includes('reconnected, missed nothing'));
    discord.write('ann', discord.channel, 'end');
    await mustCome('the end', () => heard().includes('end'));
    expect(heard()).toEqual(['!floor skip', 'hello', 'end']);
    expect(here.listener.commands.map(({ line }) => line)).toEqual(['!floor skip']);
  });

  test('row 34: finds a lost event by reading the history', async () => {
    await started();
    const known = discord.write('ann', discord.channel, 'one');
    discord.drop();
    discord.write('ann', discord.channel, 'lost');
    discord.write('ann', discord.channel, 'two');
    await mustCome('what came', () => heard().length === 2);
    const channel = `discord:${discord.channel}`;
    const { messages } = await here.adapter.catchUp(channel, { id: known.id, order: known.id });
    expect(messages.map(({ text }) => text)).toEqual(['one', 'lost', 'two']);
  });

  test('row 36: reports that events may be missing after INVALID_SESSION', async () => {
    await started();
    discord.invalidate(false);
    await mustCome('the return', () => here.listener.notes.includes('reconnected, missed perhaps'));
    expect(here.listener.notes.filter((note) => note.includes('connect'))).toEqual([
      'disconnected',
      'reconnected, missed perhaps',
    ]);
  });

  test('row 37: stops for good with instructions when the token is revoked', async () => {
    await started();
    discord.revokeToken();
    await mustCome('the end', () => here.listener.broken.length === 1);
    expect(here.listener.broken[0]).toMatchObject({ name: 'AdapterError', adapter: 'discord' });
    expect(here.listener.broken[0]?.message).toContain('DISCORD_TOKEN');
  });

  test('row 37: rejects the start when Discord refuses the token', async () => {
    here = rigOf({ ...discord, token: 'wrong' });
    await expect(here.adapter.start(here.listener.intake, here.queries)).rejects.toThrow('DISCORD_TOKEN');
  });

  test('rejects the start when Discord refuses the gateway', async () => {
    discord.fail('GET /gateway/bot', { kind: 'status', status: 403, code: 40_001, message: 'Unauthorized' });
    here = rigOf(discord);
    rigs.push(here);
    await expect(here.adapter.start(here.listener.intake, here.queries)).rejects.toMatchObject({
      name: 'AdapterError',
      message: 'Discord refused this bot: Discord refused connect: Unauthorized (403, code 40001)',
    });
  });

  test('row 46: survives invalid payloads and logs their problems', async () => {
    await started();
    const odd = { id: null, channel_id: discord.channel, author: null, content: 3 };
    for (const event of ['MESSAGE_CREATE', 'MESSAGE_UPDATE', 'MESSAGE_DELETE', 'MESSAGE_DELETE_BULK', 'GUILD_DELETE']) {
      for (const payload of [odd, null, 'text', {}, []]) discord.odd(event, payload);
    }
    for (const event of [
      'THREAD_CREATE',
      'THREAD_UPDATE',
      'THREAD_LIST_SYNC',
      'CHANNEL_UPDATE',
      'INTERACTION_CREATE',
    ]) {
      for (const payload of [odd, null, {}]) discord.odd(event, payload);
    }
    discord.write('ann', discord.channel, 'still there?');
    await mustCome('the message', () => heard().length === 1);
    expect(here.lines.some(({ event, problems }) => event === 'MESSAGE_CREATE' && Array.isArray(problems))).toBe(true);
    expect(here.listener.broken).toEqual([]);
  });
});

describe('a restart', () => {
  test('resumes the session and does not run a command again that Discord replays', async () => {
    const memory = createMemory();
    const first = await started({ memory });
    discord.write('ann', discord.channel, 'one');
    discord.write('ann', discord.channel, '!floor skip');
    await mustCome('both', () => first.listener.messages.length === 2 && first.listener.commands.length === 1);
    await first.adapter.stop();
    const kept = JSON.parse(memory.kept.get(`session:${discord.botUser}:0`) ?? '{}') as { sequence: number };
    memory.kept.set(`session:${discord.botUser}:0`, JSON.stringify({ ...kept, sequence: kept.sequence - 1 }));
    discord.write('ann', discord.channel, 'two');
    await started({ memory });
    await mustCome('the second', () => heard().includes('two'));
    expect(here.listener.commands).toEqual([]);
    expect([discord.identifies.length, discord.resumes.length]).toEqual([1, 1]);
  });
});

describe('a restart while the command of a reaction is not stored', () => {
  test('gets the reaction again from Discord', async () => {
    const memory = createMemory();
    const first = await started({ memory });
    const { id } = discord.write('ann', discord.channel, 'The list lacks a header');
    await mustCome('the message', () => heard().length === 1);
    first.listener.answers.next = () => new Promise(() => undefined);
    discord.react('ann', id, '🎫');
    await mustCome('the command', () => first.listener.commands.length === 1);
    await first.adapter.stop();
    await started({ memory });
    await mustCome('the command again', () => here.listener.commands.length === 1, 5_000);
    expect(here.listener.commands[0]?.line).toBe(`/ticket ${id}`);
  });
});

describe('a thread', () => {
  test('has a floor of its own from its first message', async () => {
    await started();
    const thread = discord.thread(discord.channel, 'plans');
    discord.write('ann', thread, 'here we plan');
    await mustCome('the message', () => heard().length === 1);
    const parent = `discord:${discord.channel}`;
    expect(here.listener.threads).toMatchObject([{ id: `discord:${thread}`, parent, name: 'plans' }]);
    expect(here.listener.messages).toMatchObject([{ channel: `discord:${thread}` }]);
  });

  test("shares its channel's floor or is ignored, by the setting `threads` of the channel", async () => {
    const other = discord.addChannel('quiet');
    await started({ places: [placeOf(discord.channel, { threads: 'parent' }), placeOf(other, { threads: 'ignore' })] });
    discord.write('ann', discord.thread(other, 'x'), 'unheard');
    const thread = discord.thread(discord.channel, 'y');
    discord.write('ann', thread, 'heard');
    await mustCome('the message', () => heard().length === 1);
    const floor = `discord:${discord.channel}`;
    expect(here.listener.messages).toMatchObject([{ text: 'heard', channel: floor, thread: `discord:${thread}` }]);
    expect(here.listener.threads).toEqual([]);
    const id = here.listener.messages[0]!.id;
    await here.adapter.receipt?.(`discord:${thread}`, id, 'injected');
    const shared = discord.requests.filter(({ method, path }) => method === 'PUT' && path.includes(`/messages/${id}/`));
    expect(shared.map(({ status }) => status)).toEqual([204]);
  });

  test('is looked up at most once when no event described the thread', async () => {
    const memory = createMemory();
    await (await started({ memory })).adapter.stop();
    const thread = discord.thread(discord.channel, 'plans');
    await started({ memory });
    discord.write('ann', thread, 'one');
    discord.write('ann', thread, 'two');
    await mustCome('both', () => heard().length === 2);
    const asked = discord.requests.filter(
      ({ method, path }) => method === 'GET' && path.endsWith(`/channels/${thread}`),
    );
    expect(asked.length).toBeLessThanOrEqual(1);
  });

  test('needs "Send Messages in Threads", and not "Send Messages"', async () => {
    const [open, shut] = ['plans', 'closed'].map((name) => discord.thread(discord.channel, name));
    const elsewhere = discord.addChannel('elsewhere');
    const other = discord.thread(elsewhere, 'more');
    discord.permit(discord.channel, 'SendMessages', 'deny');
    discord.permit(elsewhere, 'SendMessagesInThreads', 'deny');
    await started({ places: [open, shut, other].map((thread) => placeOf(thread ?? '')) });
    const suspended = here.listener.notes.filter((note) => note.startsWith('suspend'));
    expect(suspended).toEqual([`suspend discord:${other}: the bot lacks the permission "Send Messages in Threads"`]);
    const post = { outboxId: '1', speaker: null, text: 'x', afterId: null, epoch: null };
    await expect(here.adapter.post(`discord:${open}`, post)).resolves.toMatch(/^\d+$/);
  });

  test('row 42: is suspended when it is closed and restored when it is opened', async () => {
    await started();
    const thread = discord.thread(discord.channel, 'plans');
    discord.write('ann', thread, 'one');
    await mustCome('the message', () => heard().length === 1);
    discord.archiveThread(thread);
    discord.lockThread(thread);
    await mustCome('the end', () => here.listener.notes.includes(`suspend discord:${thread}: the thread was closed`));
    here.listener.notes.length = 0;
    discord.lockThread(thread, false);
    await mustCome('the return', () => here.listener.notes.includes(`restore discord:${thread}`));
  });
});

describe('row 35: events in the wrong order', () => {
  test("carry the platform's order, by which they can be sorted", async () => {
    await started();
    discord.reorder();
    discord.write('ann', discord.channel, 'one');
    discord.write('ann', discord.channel, 'two');
    await mustCome('both', () => heard().length === 2);
    expect(heard()).toEqual(['two', 'one']);
    const inOrder = here.listener.messages.toSorted((one, other) => compareOrder(one.order, other.order));
    expect(inOrder.map(({ text }) => text)).toEqual(['one', 'two']);
  });

  test('apply an edit that arrived before its message', async () => {
    await started();
    const channel = discord.channel;
    const id = snowflake('1');
    const message = {
      id,
      channel_id: channel,
      author: { id: snowflake('2'), username: 'ann' },
      type: 0,
      attachments: [],
      mentions: [],
      mention_roles: [],
      timestamp: '2026-01-01T00:00:00Z',
    };
    discord.odd('MESSAGE_UPDATE', { ...message, content: 'better', edited_timestamp: '2026-01-01T00:00:09Z' });
    discord.odd('MESSAGE_CREATE', { ...message, content: 'first' });
    await mustCome('both', () => here.listener.changes.length === 2);
    expect(heard()).toEqual(['first']);
    expect(here.listener.changes.at(-1)).toMatchObject({ change: 'edited', id, text: 'better' });
  });

  test('drop a message whose deletion arrived before the message', async () => {
    await started();
    const id = snowflake('3');
    discord.odd('MESSAGE_DELETE', { id, channel_id: discord.channel });
    discord.odd('MESSAGE_CREATE', {
      id,
      channel_id: discord.channel,
      author: { id: snowflake('2'), username: 'ann' },
      type: 0,
      content: 'gone',
      attachments: [],
      mentions: [],
      mention_roles: [],
      timestamp: '2026-01-01T00:00:00Z',
    });
    discord.write('ann', discord.channel, 'here');
    await mustCome('the message', () => heard().length > 0);
    expect(heard()).toEqual(['here']);
  });
});

describe('row 42: a channel that the bot loses', () => {
  const channel = (): string => `discord:${discord.channel}`;
  const suspended = (why: string): boolean => here.listener.notes.includes(`suspend ${channel()}: ${why}`);

  test('is suspended when it is deleted', async () => {
    await started();
    discord.deleteChannel(discord.channel);
    await mustCome('the end', () => suspended('the channel was deleted'));
  });

  test('is suspended when the bot is removed and restored when the bot is invited again', async () => {
    await started();
    discord.kickBot();
    await mustCome('the end', () => suspended('the bot was removed from the server'));
    here.listener.notes.length = 0;
    discord.inviteBot();
    await mustCome('the return', () => here.listener.notes.includes(`restore ${channel()}`));
  });

  test('stays open during an outage of Discord', async () => {
    await started();
    discord.outage(true);
    discord.outage(false);
    discord.write('ann', discord.channel, 'still here');
    await mustCome('the message', () => heard().length === 1);
    expect(here.listener.notes.filter((note) => note.startsWith('suspend'))).toEqual([]);
  });

  test('is suspended without the permission to view the channel and restored with that permission', async () => {
    await started();
    discord.permit(discord.channel, 'ViewChannel', 'deny');
    const post = { outboxId: '1', speaker: null, text: 'x', afterId: null, epoch: null };
    await expect(here.adapter.post(channel(), post)).rejects.toMatchObject({ fault: 'refused' });
    await mustCome('the end', () => here.listener.notes.some((note) => note.startsWith(`suspend ${channel()}`)));
    here.listener.notes.length = 0;
    discord.permit(discord.channel, 'ViewChannel', null);
    await mustCome('the return', () => here.listener.notes.includes(`restore ${channel()}`));
    await expect(here.adapter.post(channel(), post)).resolves.toMatch(/^\d+$/);
  });

  test.each([
    [403, 50_013, 'Missing Permissions'],
    [403, 50_001, 'Missing Access'],
    [404, 10_003, 'Unknown Channel'],
  ])('T36 that wrongly answers %s, code %s once is not suspended', async (status, code, message) => {
    await started();
    const asked = (): number =>
      discord.requests.filter(({ method, path }) => method === 'GET' && path.endsWith(`/channels/${discord.channel}`))
        .length;
    const before = asked();
    const post = { outboxId: '1', speaker: null, text: 'x', afterId: null, epoch: null };
    discord.fail('POST /channels/*/messages', { kind: 'status', status, code, message });
    await expect(here.adapter.post(channel(), post)).rejects.toMatchObject({ fault: 'refused' });
    await mustCome('the question', () => asked() > before);
    const isSure = (): boolean => here.lines.some(({ message: words }) => String(words).includes('though it is open'));
    await mustCome('the answer', isSure);
    await here.adapter.post(channel(), post);
    expect(here.listener.notes.filter((note) => note.startsWith('suspend'))).toEqual([]);
  });

  test.each([
    ['a channel', () => discord.channel],
    ['a thread', () => discord.thread(discord.channel, 'plans')],
  ])('T38 lets agents in %s post under their own names as soon as "Manage Webhooks" returns', async (_, placed) => {
    discord.permit(discord.channel, 'ManageWebhooks', 'deny');
    const place = placed();
    await started({ places: [placeOf(place)] });
    const speaker = { id: 'dev', name: 'dev', avatar: null };
    const post = (id: string) => ({ outboxId: id, speaker, text: `words ${id}`, afterId: null, epoch: 1 });
    const authors = (): readonly string[] => discord.read(place).map(({ author }) => author);
    await here.adapter.post(`discord:${place}`, post('1'));
    const [bot] = authors();
    expect(bot).not.toBe('dev');
    discord.permit(discord.channel, 'ManageWebhooks', null);
    discord.write('ann', place, 'after the change');
    await mustCome('the change', () => heard().length === 1);
    await here.adapter.post(`discord:${place}`, post('2'));
    expect(authors().at(-1)).toBe('dev');
  });

  test('is suspended after a refusal and restored by a later check, without events about the changes', async () => {
    const after: Timers['after'] = (ms, run) => systemTimers.after(ms === ASK_AGAIN_MS ? 300 : ms, run);
    await started({ timers: { after } });
    discord.drop('CHANNEL_UPDATE');
    discord.permit(discord.channel, 'ViewChannel', 'deny');
    const post = { outboxId: '1', speaker: null, text: 'x', afterId: null, epoch: null };
    await expect(here.adapter.post(channel(), post)).rejects.toMatchObject({ fault: 'refused' });
    await mustCome('the end', () => here.listener.notes.some((note) => note.startsWith(`suspend ${channel()}`)));
    here.listener.notes.length = 0;
    discord.drop('CHANNEL_UPDATE');
    discord.permit(discord.channel, 'ViewChannel', null);
    await mustCome('the return', () => here.listener.notes.includes(`restore ${channel()}`));
  });

  test('is suspended at the start when it does not exist', async () => {
    const gone = discord.addChannel('gone');
    discord.deleteChannel(gone);
    await started({ places: [placeOf(discord.channel), placeOf(gone)] });
    expect(here.listener.notes).toContain(`suspend discord:${gone}: the channel does not exist`);
    expect(here.listener.notes).toContain(`restore ${channel()}`);
  });
});

describe('row 41: a bot without permissions', () => {
  test('logs the missing permission as an error at the start', async () => {
    discord.hideHistory(discord.channel);
    await started();
    const said = here.lines.find(({ missing }) => missing !== undefined);
    expect(said).toMatchObject({ level: 50, missing: ['Read Message History'] });
  });
});

describe('a command', () => {
  test('is answered to its author only', async () => {
    await withCommands();
    const answer = await discord.command('ann', discord.channel, 'floor grant', { agent: 'dev' });
    expect(answer).toMatchObject({ state: 'shown', ephemeral: true, text: 'done: /floor grant dev' });
    expect(here.listener.commands).toMatchObject([
      { channel: `discord:${discord.channel}`, line: '/floor grant dev', by: { name: 'ann' } },
    ]);
  });

  test('is answered with the whole help in several messages, as a slash command and typed', async () => {
    await withCommands();
    const text = helpText(undefined) ?? '';
    here.listener.answers.next = async () => ({ ok: true, text });
    const answer = await discord.command('ann', discord.channel, 'help');
    const joined = (parts: readonly { readonly text: string }[]): string => parts.map((part) => part.text).join('\n');
    await mustCome('the whole help', () => joined([answer, ...answer.followUps]) === text);
    expect(answer.followUps.every(({ ephemeral }) => ephemeral)).toBe(true);
    discord.write('ann', discord.channel, '!help');
    await mustCome('the typed help', () => joined(discord.read(discord.channel).slice(1)) === text);
  });

  test('row 47: is answered and run once when it takes 3.5 s and Discord delivers it twice', async () => {
    await withCommands();
    here.listener.answers.next = (line) =>
      new Promise((answer) => void setTimeout(() => answer({ ok: true, text: `slowly ${line}` }), 3_500));
    discord.duplicate('INTERACTION_CREATE');
    const answer = await discord.command('ann', discord.channel, 'floor skip');
    expect(answer).toMatchObject({ state: 'shown', text: 'slowly /floor skip' });
    expect(here.listener.commands).toHaveLength(1);
  });

  test('row 47: is run once when the answer to the acknowledgement was lost', async () => {
    await withCommands();
    discord.fail('POST /interactions/*/*/callback', { kind: 'reset-after' });
    const answer = await discord.command('ann', discord.channel, 'floor skip');
    expect(answer).toMatchObject({ state: 'shown', text: 'done: /floor skip' });
    expect(here.listener.commands).toHaveLength(1);
  });

  test('row 47: is not run when the interaction expired', async () => {
    await withCommands();
    discord.fail('POST /interactions/*/*/callback', {
      kind: 'status',
      status: 404,
      code: 10_062,
      message: 'Unknown interaction',
    });
    await discord.command('ann', discord.channel, 'floor skip');
    expect(here.listener.commands).toEqual([]);
  });

  test('does not wait for a message that cannot be stored', async () => {
    await withCommands();
    here.listener.trouble.error = new Error('the disk is full');
    discord.write('ann', discord.channel, 'stuck');
    expect(await discord.command('ann', discord.channel, 'stop')).toMatchObject({ text: 'done: /stop' });
    here.listener.trouble.error = null;
  });

  test("row 75: carries the person's present roles, as a slash command and typed, and shows a refusal", async () => {
    await withCommands();
    here.listener.answers.next = async () => ({ ok: false, text: 'Only operators may do that.' });
    const role = discord.role('operators');
    discord.giveRole('ann', role);
    const answer = await discord.command('ann', discord.channel, 'floor skip');
    expect(answer.text).toBe('Only operators may do that.');
    expect(here.listener.commands[0]?.by.roles).toEqual([role]);
    discord.write('ann', discord.channel, '!floor skip');
    await mustCome('the typed one', () => here.listener.commands.length === 2);
    expect(here.listener.commands[1]?.by).toEqual({ ...here.listener.commands[0]?.by });
  });

  test('row 76: a button press does not carry a role that was removed before it', async () => {
    await withCommands();
    const role = discord.role('operators');
    discord.giveRole('ann', role);
    here.adapter.card?.(`discord:${discord.channel}`, view());
    await mustCome('the card', () => discord.read(discord.channel).some(({ buttons }) => buttons.length > 0));
    const card = discord.read(discord.channel).find(({ buttons }) => buttons.length > 0);
    discord.takeRole('ann', role);
    const answer = await discord.press('ann', card?.id ?? '', 'Skip');
    expect(answer).toMatchObject({ ephemeral: true, text: 'done: /floor skip' });
    expect(here.listener.commands).toMatchObject([{ line: '/floor skip', drawnFor: 'tx.7', by: { roles: [] } }]);
  });

  describe('a request', () => {
    const approval = {
      question: 8,
      key: 'K8',
      title: 'npm test',
      detail: `npm test ${'x'.repeat(3_000)}`,
      shown: true,
      always: [
        { rule: 'execute(npm test)', words: 'exactly this command' },
        { rule: 'execute(npm *)', words: 'every command "npm *"' },
      ],
    };
    const asking = (more: object = {}): FloorView => {
      const { holder, ...floor } = view();
      if (holder === null) throw new Error('nobody has the floor');
      const asked = { status: 'WAITING', waitingFor: 'approval', approval: { ...approval, ...more } } as const;
      return { ...floor, holder: { ...holder, ...asked } };
    };
    const press = async (label: string) => {
      const cardWith = () =>
        discord.read(discord.channel).find(({ buttons }) => buttons.some((each) => each.label === label));
      await mustCome('the card', () => cardWith() !== undefined);
      const card = cardWith();
      return discord.press('ann', card?.id ?? '', label);
    };

    beforeEach(async () => {
      await withCommands();
      Object.assign(here.queries, { view: () => asking() });
      here.adapter.card?.(`discord:${discord.channel}`, asking());
    });

    test('has its answer buttons before the buttons of the turn, in rows of five', async () => {
      await mustCome('the card', () => discord.read(discord.channel).some(({ buttons }) => buttons.length > 0));
      const card = discord.read(discord.channel).find(({ buttons }) => buttons.length > 0);
      expect(card?.buttons.map(({ label }) => label).join()).toBe(
        'Allow once,Always…,Deny,Deny with reason…,Whole input,Skip,Stop,Pause',
      );
      expect(card?.components.map((row) => Object(row['components']).length)).toEqual([5, 3]);
    });

    test('is denied with the reason from the form, and not before the form is sent', async () => {
      const { modal } = await press('Deny with reason…');
      expect(here.listener.commands).toEqual([]);
      const answer = await discord.submit('ann', discord.channel, modal, 'use\nb.txt');
      expect(answer).toMatchObject({ ephemeral: true, text: 'done: /reject 8 use b.txt' });
      expect(here.listener.commands).toMatchObject([{ line: '/reject 8 use b.txt', drawnFor: 'qK8' }]);
    });

    test.each(['Deny with reason…', 'Always…'])(
      'T67 shows the refusal instead of "%s" to a person who may not answer',
      async (label) => {
        here.listener.trouble.refusal = 'Only operators may use /reject.';
        const answer = await press(label);
        expect(answer).toMatchObject({ ephemeral: true, text: 'Only operators may use /reject.', components: [] });
        expect([answer.modal ?? null, here.listener.commands]).toEqual([null, []]);
        expect(await press('Whole input')).toMatchObject({ text: 'Whole input of request 8:' });
      },
    );

    test('says in the form whether the agent reads the reason', async () => {
      expect(JSON.stringify((await press('Deny with reason…')).modal)).toContain('Reason (the agent reads it)');
      const about = { step: 1, steps: 2, tool: 'edit', folder: null, why: 'x', says: null, denyOnly: true };
      Object.assign(here.queries, { view: () => asking({ about }) });
      expect(JSON.stringify((await press('Deny with reason…')).modal)).toContain(
        'Reason (recorded, not sent to the agent)',
      );
    });

    test('T65 shows each "always" rule in full, with a numbered button', async () => {
      const { components, ephemeral, text } = await press('Always…');
      expect(text).toContain('\n2: every command "npm *" · `execute(npm *)`');
      expect(JSON.stringify(components)).toContain('"label":"1: exactly this command"');
      expect(ephemeral).toBe(true);
      const ids = [...JSON.stringify(components).matchAll(/"custom_id":"([^"]+)"/g)].map(([, id]) => id);
      expect(ids).toEqual(['conch:qK8:/allow 8 always 1', 'conch:qK8:/allow 8 always 2']);
      expect(JSON.stringify(components)).toContain('exactly this command');
      expect(here.listener.commands).toEqual([]);
    });

    test('opens no list of "always" rules when the request is closed', async () => {
      Object.assign(here.queries, { view: () => asking({ question: 9, key: 'K9' }) });
      expect(await press('Always…')).toMatchObject({ text: 'That request is closed.', components: [] });
    });

    test('of a background run has buttons while nobody holds the floor', async () => {
      const asides = [{ agent: 'qa', run: 2, question: { ...approval, question: 9, key: 'K9' } }];
      const floor: FloorView = { ...asking(), condition: 'resting', holder: null, asides };
      Object.assign(here.queries, { view: () => floor });
      here.adapter.card?.(`discord:${discord.channel}`, floor);
      const { modal } = await press('Deny with reason… (9)');
      await discord.submit('ann', discord.channel, modal, 'not now');
      expect(await press('Whole input (9)')).toMatchObject({ ephemeral: true, text: 'Whole input of request 9:' });
      expect(JSON.stringify((await press('Always… (9)')).components)).toContain('conch:qK9:/allow 9 always 2');
      await press('Allow once (9)');
      await press('Stop QA Bot+');
      expect(here.listener.commands.map(({ line, drawnFor }) => `${line} ${drawnFor}`)).toEqual([
        '/reject 9 not now qK9',
        '/allow 9 qK9',
        '/run abort qa+ tx.2',
      ]);
    });

    describe('with a form', () => {
      const about = { step: 1, steps: 9, tool: 'issue of hub', folder: null, why: 'hub asks', says: null };
      const plain = { hint: '', required: false, options: [] } as const;
      const kinds = ['bug', 'idea'].map((value) => ({ value, label: value.toUpperCase() }));
      const form = [
        { ...plain, name: 'title', label: 'Title', hint: 'What is wrong?', kind: 'text', required: true, least: 3 },
        { ...plain, name: 'kind', label: 'Kind', kind: 'one', required: true, options: kinds, initial: 'idea' },
        { ...plain, name: 'labels', label: 'Labels', kind: 'some', options: kinds, most: 1 },
        { ...plain, name: 'urgent', label: 'Urgent?', kind: 'boolean' },
        { ...plain, name: 'votes', label: 'Votes', kind: 'integer', least: 1, initial: '2' },
      ];
      const withForm = (fields: readonly object[] = form): FloorView =>
        asking({ title: 'hub asks: Which issue?', about: { ...about, answer: 'title=… kind=bug', form: fields } });
      const use = (floor: FloorView): void => {
        Object.assign(here.queries, { view: () => floor });
        here.adapter.card?.(`discord:${discord.channel}`, floor);
      };

      beforeEach(() => use(withForm()));

      test('has the buttons Answer… and Decline, and opens the form with its defaults', async () => {
        const { modal } = await press('Answer…');
        expect(modal).toMatchObject({
          title: 'The channel will not show your answer',
          custom_id: 'conch:qK8:/answer 8',
          components: [
            { label: 'Title', description: 'What is wrong? · at least 3 characters', component: { required: true } },
            { label: 'Kind', component: { options: [{ label: 'BUG' }, { label: 'IDEA', default: true }] } },
            { label: 'Labels', component: { min_values: 0, max_values: 1 } },
            { label: 'Urgent?', component: { options: [{ value: 'yes' }, { value: 'no' }] } },
            { label: 'Votes', description: 'a whole number, at least 1', component: { style: 1, value: '2' } },
          ],
        });
        expect(here.listener.commands).toEqual([]);
        await press('Decline');
        expect(here.listener.commands).toMatchObject([{ line: '/reject 8', drawnFor: 'qK8' }]);
      });

      test('opens the form with at most as many default values as a field takes', async () => {
        use(
          withForm([
            { ...plain, name: 'labels', label: 'Labels', kind: 'some', options: kinds, most: 1, initial: 'bug, idea' },
          ]),
        );
        const { modal } = await press('Answer…');
        const options = [
          { value: 'bug', label: 'BUG', default: true },
          { value: 'idea', label: 'IDEA' },
        ];
        expect(modal).toMatchObject({ components: [{ component: { max_values: 1, options } }] });
        expect(JSON.stringify(modal).match(/default/g)).toHaveLength(1);
      });

      test('opens the form though a default value is cut within an emoji', async () => {
        use(withForm([{ ...plain, name: 'sign', label: 'Sign', kind: 'text', most: 3, initial: '🌉🌉' }]));
        const { modal } = await press('Answer…');
        expect(modal).toMatchObject({ components: [{ component: { max_length: 3, value: '🌉\uFFFD' } }] });
      });

      test('opens no form with the same choice twice, because Discord refuses such a form', async () => {
        use(withForm([{ ...plain, name: 'kind', label: 'Kind', kind: 'one', options: [...kinds, ...kinds] }]));
        const { modal } = await press('Answer…');
        expect([modal ?? null, here.listener.commands.length]).toEqual([null, 1]);
      });

      test('is answered by one command with all values', async () => {
        const { modal } = await press('Answer…');
        const filled = { title: 'a=b\nvotes=9', labels: ['bug'], urgent: 'yes' };
        const answer = await discord.submit('ann', discord.channel, modal, filled);
        expect(answer).toMatchObject({ ephemeral: true });
        const line = String.raw`/answer 8 title="a=b\nvotes=9" kind=idea labels=bug urgent=yes votes=2`;
        expect(here.listener.commands).toMatchObject([{ line, drawnFor: 'qK8' }]);
      });

      test('offers the form again with the refused values and their errors', async () => {
        const wrong = { title: 'Too small: at least 3 characters' };
        here.listener.answers.next = async () => ({ ok: false, text: `title: ${wrong.title}`, fields: wrong });
        const { modal } = await press('Answer…');
        const told = await discord.submit('ann', discord.channel, modal, { title: 'ab', votes: '5' });
        expect(told).toMatchObject({ ephemeral: true, text: `title: ${wrong.title}` });
        expect(JSON.stringify(told.components)).toContain('"custom_id":"conchfqK8:/answer 8","label":"Answer again…"');
        const again = [
          { description: `⚠ ${wrong.title}`, component: { value: 'ab' } },
          { component: { options: [{ value: 'bug' }, { value: 'idea', default: true }] } },
          {},
          {},
          { component: { value: '5' } },
        ];
        expect((await press('Answer…')).modal).toMatchObject({ components: again });
        here.listener.answers.next = async () => ({ ok: true, text: 'Answered.' });
        await discord.submit('ann', discord.channel, modal, { title: 'abc' });
        expect(JSON.stringify((await press('Answer…')).modal)).not.toContain('abc');
      });

      test('runs /answer without values when the form is too long for Discord', async () => {
        const long = [...form, { ...plain, name: 'more', label: 'More', kind: 'text' }];
        const many = Array.from({ length: 26 }, (_, index) => ({ value: `v${index}`, label: `v${index}` }));
        for (const fields of [long, [{ ...plain, name: 'of', label: 'of', kind: 'one', options: many }]]) {
          use(withForm(fields));
          expect(await press('Answer…')).toMatchObject({ modal: null, text: 'done: /answer 8' });
        }
      });

      test('runs /answer without a form when the request is closed', async () => {
        Object.assign(here.queries, { view: () => asking({ question: 9, key: 'K9' }) });
        expect(await press('Answer…')).toMatchObject({ modal: null, text: 'done: /answer 8' });
      });
    });

    test('shows its whole input as a file to the person who presses the button', async () => {
      const files = [{ name: 'input.txt', text: approval.detail }];
      expect(await press('Whole input')).toMatchObject({ ephemeral: true, text: 'Whole input of request 8:', files });
      expect(here.listener.commands).toEqual([]);
    });
  });

  test('T34 /why takes a link to a message, and !why in a reply explains the message that it replies to', async () => {
    await withCommands();
    const about = discord.write('ann', discord.channel, 'hello');
    const link = `https://discord.com/channels/1/${discord.channel}/${about.id}`;
    await discord.command('ann', discord.channel, 'why', { message: link });
    discord.write('ann', discord.channel, `!why ${link}`);
    await mustCome('the link', () => here.listener.commands.length === 2);
    discord.write('ann', discord.channel, '!why', { replyTo: about.id });
    await mustCome('the reply', () => here.listener.commands.length === 3);
    expect(here.listener.commands.map(({ line }) => line)).toEqual([
      `/why ${about.id}`,
      `!why ${about.id}`,
      `!why ${about.id}`,
    ]);
  });

  test('says how to get a floor in a channel without a floor', async () => {
    const other = discord.addChannel('elsewhere');
    await withCommands();
    const answer = await discord.command('ann', other, 'floor status');
    expect(answer.text).toContain('Conch has no floor in this channel');
    expect(here.listener.commands).toEqual([]);
  });

  test('is answered as failed when running it throws', async () => {
    await withCommands();
    here.listener.answers.next = () => Promise.reject(new Error('the disk is full'));
    const answer = await discord.command('ann', discord.channel, 'floor skip');
    expect(answer.text).toBe('This failed. The log of Conch says why. Nothing was changed.');
  });

  test('offers agents and messages as completions', async () => {
    const author = { kind: 'person', id: '5', name: 'ann' } as const;
    const line = { line: 1, at: 0, author, text: 'hello\nthere', attachments: [], message: '123', change: null };
    await withCommands({ lines: [line] });
    expect(await discord.autocomplete('ann', discord.channel, 'floor grant', { option: 'agent', text: 'q' })).toEqual([
      { name: 'qa · QA Bot', value: 'qa' },
    ]);
    expect(await discord.autocomplete('ann', discord.channel, 'why', { option: 'message', text: '' })).toEqual([
      { name: '123 · ann: hello there', value: '123' },
    ]);
  });

  test('offers a message whose summary would end within an emoji', async () => {
    const text = `${'x'.repeat(59)}🎉 and so on`;
    const author = { kind: 'person' as const, id: '1', name: 'ann' };
    const line = { line: 1, at: 0, author, text, attachments: [], message: '123', change: null };
    await withCommands({ lines: [line] });
    const [offered] = await discord.autocomplete('ann', discord.channel, 'why', { option: 'message', text: '' });
    expect(offered?.value).toBe('123');
  });

  test('typed as a message is stored, run and answered', async () => {
    await started();
    const typed = discord.write('ann', discord.channel, '!floor status');
    await mustCome('the reply', () => discord.read(discord.channel).length === 2);
    expect(discord.read(discord.channel)[1]).toMatchObject({ text: 'done: !floor status', replyTo: typed.id });
    await mustCome('the record', () => heard().length === 1);
    expect(here.listener.messages).toMatchObject([{ ignore: 'an operator command' }]);
  });

  test.each([
    ['is limited', { kind: 'rate-limit', retryAfterMs: 50, scope: 'user' }],
    ['is lost on the way', { kind: 'reset-after' }],
    ['gets a 502', { kind: 'status', status: 502 }],
  ] as const)('typed as a message is answered once when the answer %s', async (_, fault) => {
    await started();
    discord.fail('POST /channels/*/messages', fault);
    discord.write('ann', discord.channel, '!floor status');
    await mustCome('the reply', () => discord.read(discord.channel).length === 2);
    const attempts = (): number =>
      discord.requests.filter(({ method, path }) => method === 'POST' && path.endsWith('/messages')).length;
    await mustCome('the second attempt', () => attempts() === 2);
    expect(here.listener.commands).toHaveLength(1);
    expect(discord.read(discord.channel)).toHaveLength(2);
  });

  test('typed as a message is answered as failed when running it throws', async () => {
    await started();
    here.listener.answers.next = async () => {
      throw new Error('the disk is full');
    };
    discord.write('ann', discord.channel, '!floor skip');
    await mustCome('the answer', () => discord.read(discord.channel).length === 2);
    expect(discord.read(discord.channel)[1]?.text).toBe('This failed. The log of Conch says why. Nothing was changed.');
    expect(here.lines.some(({ message }) => message === 'a typed command failed')).toBe(true);
  });

  test('row 75: typed by a program is refused without a reply', async () => {
    await started({ places: [placeOf(discord.channel, { allowBots: 'all' })] });
    discord.bot('beep', discord.channel, '!stop');
    await mustCome('the refusal', () => here.listener.commands.length === 1);
    expect(here.listener.commands[0]?.by.bot).toBe(true);
    discord.write('ann', discord.channel, 'hm');
    await mustCome('the message', () => heard().length === 2);
    expect(discord.read(discord.channel)).toHaveLength(2);
  });

  test("row 74: typed by a webhook with an operator's name has no operator rights", async () => {
    await started();
    discord.webhookPost('ann', discord.channel, '!stop');
    discord.write('ann', discord.channel, 'hm');
    await mustCome('both', () => heard().length === 2);
    expect(here.listener.commands).toEqual([]);
    expect(here.listener.messages[0]).toMatchObject({ ignore: 'webhooks are ignored in this channel' });
  });
});

describe('the slash commands', () => {
  test('are registered at a later catch-up when Discord refused them, and the refusal is a warning once', async () => {
    discord.fail('GET /applications/*/guilds/*/commands', {
      kind: 'status',
      status: 403,
      code: 50_001,
      message: 'Missing Access',
    });
    await started();
    const refused = (level: number): number =>
      here.lines.filter((line) => line['level'] === level && String(line['message']).includes('not be registered'))
        .length;
    await mustCome('the refusal', () => refused(40) === 1);
    await here.adapter.catchUp(`discord:${discord.channel}`, null);
    await mustCome('the second refusal', () => refused(20) === 1);
    discord.permit(discord.channel, 'EmbedLinks', 'allow');
    for (let tries = 0; tries < 500 && discord.registered(discord.channel).length === 0; tries += 1)
      await here.adapter.catchUp(`discord:${discord.channel}`, null);
    expect(discord.registered(discord.channel)).toHaveLength(commandSet().length);
    expect(refused(40)).toBe(1);
  });
});

describe('a reaction', () => {
  test('of a person with a known emoji runs its command, and no other reaction runs a command', async () => {
    await started();
    const { id } = discord.write('ann', discord.channel, 'The list lacks a header');
    discord.bot('beep', discord.channel, 'noted');
    for (const emoji of ['🎉', '🎫', '✅', '👎🏽', 'ticket:88', 'white_check_mark:89']) discord.react('ann', id, emoji);
    discord.react('beep', id, '✅');
    discord.unreact('ann', id, '✅');
    discord.write('ann', discord.channel, 'hm');
    await mustCome('the messages', () => heard().includes('hm'));
    const by = { id: discord.person('ann'), name: 'ann', roles: [] };
    expect(here.listener.commands).toEqual(
      ['ticket', 'yes', 'no'].map((kind) => ({
        channel: `discord:${discord.channel}`,
        by,
        line: `/${kind} ${id}`,
        drawnFor: 'tx.1',
      })),
    );
    const replies = discord.read(discord.channel).filter(({ authorId }) => authorId === discord.botUser);
    expect(replies).toEqual([]);
  });

  test('has a link to its message', async () => {
    await started();
    const { id } = discord.write('ann', discord.channel, 'The list lacks a header');
    await mustCome('the message', () => heard().length === 1);
    const link = here.adapter.link?.(`discord:${discord.channel}`, id) ?? '';
    expect(link).toMatch(new RegExp(`^https://discord\\.com/channels/\\d+/${discord.channel}/${id}$`));
    expect(here.adapter.link?.('discord:1', id)).toBeNull();
  });

  test('that is refused three times is answered once', async () => {
    await started();
    here.listener.answers.next = async () => ({ ok: false, text: 'Only operators may.' });
    const { id } = discord.write('ann', discord.channel, 'The list lacks a header');
    const replies = () => discord.read(discord.channel).filter(({ authorId }) => authorId === discord.botUser);
    for (let time = 0; time < 3; time += 1) {
      discord.react('ann', id, '🎫');
      discord.unreact('ann', id, '🎫');
    }
    await mustCome('the commands', () => here.listener.commands.length === 3);
    await mustCome('the reply', () => replies().length > 0);
    discord.write('ann', discord.channel, 'hm');
    await mustCome('the message', () => heard().includes('hm'));
    expect(replies()).toMatchObject([{ text: 'ann: Only operators may.', replyTo: id }]);
  });
});

function view() {
  const holder = {
    agent: 'dev',
    epoch: 7,
    status: 'ACTIVE' as const,
    startedAt: 0,
    deadlineAt: null,
    waitingFor: null,
    working: false,
    approval: null,
  };
  return {
    channel: `discord:${discord.channel}`,
    store: 'x',
    condition: 'open' as const,
    mode: 'inject' as const,
    order: 'round-robin' as const,
    epoch: 7,
    holder,
    seats: [],
    next: [],
    held: [],
    turns: null,
    obstacles: [],
  };
}
