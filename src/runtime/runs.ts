import type { ToolGate } from '../agents/tools/tool-gate.ts';
import { stepsOf } from '../config/config.ts';
import type { Config } from '../config/config.ts';
import type { Clock } from '../lib/time.ts';
import type { FloorStore } from '../turns/floor-store.ts';
import type { TurnManager } from '../turns/manager.ts';
import { runOnFloor } from '../work/runs/floor-binding.ts';
import type { RunSeat } from '../work/runs/floor-binding.ts';
import { createRunCommands } from '../work/runs/run-commands.ts';
import type { RunCommandPorts, RunStore } from '../work/runs/run-commands.ts';
import { requestersOf } from '../work/runs/run-requester.ts';
import type { Requester } from '../work/runs/run-requester.ts';
import type { RunCommands } from '../turns/commands/context.ts';
import { timeWords } from '../turns/commands/clock-words.ts';
import type { ChannelId } from '../turns/floor/settings.ts';
import type { EventSource } from '../adapters/console/event-stream.ts';
import { RunFeeds } from '../work/runs/run-feed.ts';
import { RunTaints } from '../work/runs/run-taints.ts';
import { streamRuns } from '../work/runs/run-stream.ts';
import type { Log } from './log.ts';
import { createKnownPeople } from './read-model.ts';
import type { KnownPeople, ReadModel } from './read-model.ts';
import { createRunGates } from './run-gate.ts';
import { judgeCall } from './tool-judge.ts';

/** What runs need of the program. */
export type RunsPorts = {
  readonly store: Pick<FloorStore, 'host' | 'journal' | 'message'>;
  readonly floors: Pick<RunCommandPorts['floors'], 'view' | 'turns'> & Pick<ReadModel, 'seatsOf'>;
  readonly manager: Pick<TurnManager, 'apply' | 'floor' | 'keep'>;
  /** Who may operate without being named in the configuration. */
  readonly owners: readonly string[];
  readonly config: () => Config;
  readonly clock: Clock;
  readonly log: Log;
  /** The text without secrets. */
  readonly clean: (text: string) => string;
};

/** The runs of all seats: hosted beside the floors, begun by the first tool of a turn. */
export class Runs {
  readonly store: RunStore;
  readonly people: KnownPeople;
  /** Answers the commands of the group "run". */
  readonly commands: RunCommands;
  /** What stands between an agent and its tools while it has the floor under an epoch. */
  readonly gateFor: (seat: RunSeat, epoch: number) => ToolGate;

  /** What sessions have read that nobody vouches for. */
  readonly taints: RunTaints;

  /** Tells programs of a seat's runs as they happen. */
  readonly events: EventSource;
  /** Takes what an agent is just writing; `null` as long as nobody ever read along. */
  drafted: RunFeeds['drafted'] | null = null;

  /** Before the store recovers. */
  constructor({ store, config, clock, log, ...ports }: RunsPorts) {
    const runs = store.host(runOnFloor);
    this.store = runs;
    this.people = createKnownPeople(config, ports.owners);
    const feeds = new RunFeeds({ runs, now: () => clock.now() });
    this.events = this.#eventsFrom(feeds, ports.floors, clock);
    this.taints = new RunTaints({
      runs,
      clock,
      failed: (error) => log.error({ err: error }, 'what a session has read could not be written'),
    });
    const { manager, floors } = ports;
    const requesters = ({ channel, agent }: RunSeat): readonly Requester[] =>
      requestersOf(manager.floor(channel), agent, {
        newest: () => store.journal(channel, LOOKED_AT).toReversed(),
        authorOf: (id) => authorIn(store, id),
      });
    const member = (seat: RunSeat): Requester | null =>
      requesters(seat).find((requester) => !this.people.operates(requester)) ?? null;
    this.commands = createRunCommands({
      runs,
      floors: {
        ...floors,
        apply: (channel, command) => manager.apply(channel, command),
        keep: (channel, agent, by) => manager.keep(channel, agent, by),
      },
      clock,
      time: timeWords(),
      nameOf: (id) => config().agents.find((agent) => agent.id === id)?.name ?? this.people.nameOf(id),
      closed: (channel, question) => closedQuestion(store, channel, question),
      approvers: (agent) => config().agents.find(({ id }) => id === agent)?.approvers ?? null,
      requesters: (seat) => requesters(seat).map(({ id }) => id),
    });
    this.gateFor = createRunGates({
      ...ports,
      runs,
      clock,
      judge: (seat, call, remembered) =>
        judgeCall(config(), seat, call, { at: clock.now(), remembered, member: member(seat) }),
      maxTurns: (seat) => stepsOf(config(), seat, 'conversational'),
      requestedBy: (seat) => member(seat)?.id ?? requesters(seat)[0]?.id ?? null,
      failed: (error) => log.error({ err: error }, 'a tool call could not be written: it is not run'),
    });
  }

  #eventsFrom(feeds: RunFeeds, floors: RunsPorts['floors'], clock: Clock): EventSource {
    return ({ agent, channel, after, format }, sink) => {
      this.drafted ??= (seat, text) => feeds.drafted(seat, text);
      const seats = floors.seatsOf(agent);
      const [only] = seats;
      if (only === undefined) return { ok: false, status: 404, text: `There is no agent "${agent}" in any channel.` };
      if (channel === null && seats.length > 1)
        return { ok: false, status: 400, text: `Say which channel: ${seats.join(', ')}.` };
      if (channel !== null && !seats.includes(channel))
        return { ok: false, status: 404, text: `"${agent}" has no seat in ${channel}.` };
      return streamRuns(feeds, { channel: channel ?? only, agent }, { after, format, at: clock.now() }, sink);
    };
  }
}

function authorIn(store: Pick<FloorStore, 'message'>, id: string): Requester | null {
  const message = store.message(id);
  return message === null ? null : { ...message.author, ...(message.bot === true ? { bot: true } : {}) };
}

/** So far back it is looked for who asked, and who answered. */
const LOOKED_AT = 1_000;

function closedQuestion(
  store: Pick<FloorStore, 'journal'>,
  channel: ChannelId,
  question: number,
): { readonly choice: string; readonly by: string | null } | null {
  for (const { fact } of store.journal(channel, LOOKED_AT).toReversed()) {
    if (fact.type === 'questionClosed' && fact.question === question)
      return { choice: fact.choice ?? 'withdrawn', by: fact.by };
  }
  return null;
}
