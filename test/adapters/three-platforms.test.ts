import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import type { Intake, FloorQueries } from '../../src/adapters/port.ts';
import type { ChannelId } from '../../src/turns/floor/settings.ts';
import { openPage } from './console/fakes.ts';
import { rig as consoleRig } from './console/stage.ts';
import { rig as discordRig } from './discord/stage.ts';
import { answer, begin, newDisk, seeEqual } from './program.ts';
import type { Program } from './program.ts';
import type { Stage } from './rig.ts';
import { rig as slackRig } from './slack/stage.ts';

type Ports = { readonly intake: Intake; readonly queries: FloorQueries };
type Platforms = Readonly<Record<'page' | 'discord' | 'slack', Stage>>;
type Act = (on: Platforms & { readonly program: Program; readonly portsOf: (stage: Stage) => Ports }) => Promise<void>;

/** Runs one program on the console, a fake Discord and a fake Slack. */
async function three(act: Act): Promise<void> {
  using disk = newDisk();
  const given = new Map<ChannelId, Ports>();
  const open = async (rig: typeof consoleRig): Promise<Stage> => {
    const stage = await rig.open();
    return {
      ...stage,
      adapter(parts) {
        const adapter = stage.adapter(parts);
        const start: typeof adapter.start = (intake, queries) => {
          given.set(stage.channel, { intake, queries });
          return adapter.start(intake, queries);
        };
        return { ...adapter, start };
      },
    };
  };
  const [page, discord, slack] = [await open(consoleRig), await open(discordRig), await open(slackRig)];
  const program = await begin(page, disk, consoleRig.capabilities, { beside: [discord, slack] });
  const portsOf = (stage: Stage): Ports => {
    const ports = given.get(stage.channel);
    if (ports === undefined) throw new Error(`${stage.channel} was not started`);
    return ports;
  };
  try {
    await act({ page, discord, slack, program, portsOf });
    expect(program.broken).toEqual([]);
  } finally {
    await program.stop();
    for (const stage of [page, discord, slack]) await stage.close();
  }
}

const refused = /^impossible: .* reports .* of /;

/** Returns the id of a stage's channel without the platform's prefix. */
const idOf = ({ channel }: Stage): string => channel.slice(channel.indexOf(':') + 1);

test('T31 each platform shows the posts and the card of its own channel, and gets no requests for other channels', () =>
  three(async ({ page, discord, slack, program }) => {
    for (const stage of [page, discord, slack]) {
      program.cast.play('pm', { write: 'First of all' }, { write: ' we build it.' });
      await stage.write('ann', `Build ${stage.channel}`);
      await seeEqual(() => program.view(stage.channel).epoch > 0, true);
      await program.rests(stage.channel);
      const talk = async () => (await stage.read()).map(({ author, text }) => `${author}: ${text}`);
      const said = ['Dev', 'QA'].map((name) => `${name}: ${answer(name, `Build ${stage.channel}`)}`);
      await seeEqual(async () => (await talk()).slice(1), ['PM: First of all we build it.', ...said]);
      await seeEqual(async () => (await stage.card()) !== null, true);
    }
    for (const stage of [discord, slack]) {
      expect(new Set(stage.asked?.())).toEqual(new Set([idOf(stage)]));
    }
  }));

test("T31 the page shows other platforms' events and takes commands for their channels", () =>
  three(async ({ page, discord, slack, program }) => {
    for (const stage of [discord, slack]) {
      const { channel } = stage;
      const window = await openPage(page.page?.() ?? '');
      window.send({ type: 'open', channel });
      expect((await window.frame('state')).view?.channel).toBe(channel);
      await stage.write('ann', 'Build a bridge');
      await window.frame('batch', (batch) => batch.channel === channel && batch.view !== undefined);
      await window.frame('batch', ({ messages }) =>
        messages.some(({ text }) => text === answer('QA', 'Build a bridge')),
      );
      await program.rests(channel);
      const key = randomUUID();
      window.send({ type: 'command', channel, key, line: '/floor pause' });
      expect((await window.frame('answer', (each) => each.key === key)).text).toContain('Paused: no new turns');
      expect(program.view(channel).condition).toBe('paused');
      window.close();
    }
  }));

test('T31 a platform can query only its own channels, and the console can query all channels', () =>
  three(async ({ page, discord, slack, portsOf }) => {
    const seen = (stage: Stage) => {
      const { queries } = portsOf(stage);
      const looks = (at: ChannelId) => queries.view(at) !== null;
      return {
        channels: queries.channels().map(({ id }) => id),
        views: [page, discord, slack].filter(({ channel }) => looks(channel)).map(({ channel }) => channel),
        journals: [page, discord, slack]
          .filter(({ channel }) => queries.journal(channel, 1).length > 0)
          .map(({ channel }) => channel),
      };
    };
    const all = [page, discord, slack].map(({ channel }) => channel);
    expect(seen(page)).toEqual({ channels: all, views: all, journals: all });
    for (const stage of [discord, slack]) {
      const own = [stage.channel];
      expect(seen(stage)).toEqual({ channels: own, views: own, journals: own });
    }
  }));

test("T31 a platform's report about another platform's channel throws and changes nothing", () =>
  three(async ({ page, discord, slack, program, portsOf }) => {
    for (const [stage, other] of [
      [page, discord],
      [discord, slack],
      [slack, page],
    ] as const) {
      const { intake } = portsOf(stage);
      const { channel } = other;
      const author = { id: 'u1', name: 'Eve', roles: [] };
      const message = { id: `stray ${channel}`, channel, author, text: 'Hello', order: '1', sentAt: 1 };
      await expect(intake.message({ ...message, addressed: [], attachments: [] })).rejects.toThrow(refused);
      await expect(intake.amend({ change: 'deleted', id: message.id, channel })).rejects.toThrow(refused);
      await expect(intake.thread({ id: `${channel}-1`, parent: channel, name: 'x' })).rejects.toThrow(refused);
      await expect(intake.thread({ id: stage.channel, parent: channel, name: 'x' })).rejects.toThrow(refused);
      expect(() => intake.suspend(channel, 'gone')).toThrow(refused);
      expect(() => intake.restore(channel)).toThrow(refused);
      expect(program.message(message.id)).toBeNull();
      expect(program.view(channel).condition).toBe('resting');
    }
  }));

test("T31 only the console may run commands for another platform's channels", () =>
  three(async ({ page, discord, slack, portsOf }) => {
    const by = { id: page.idOf('ann'), name: 'Ann', roles: [] };
    const status = (from: Stage, to: Stage) => portsOf(from).intake.command(to.channel, by, '/floor status');
    await expect(status(discord, slack)).rejects.toThrow(refused);
    await expect(status(slack, page)).rejects.toThrow(refused);
    expect(await Promise.all([discord, slack].map((stage) => status(page, stage)))).toMatchObject([
      { ok: true },
      { ok: true },
    ]);
  }));
