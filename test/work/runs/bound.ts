import { floorWithWork } from '../../../src/work/floor-with-work.ts';
import { runKeyOf, runOnFloor } from '../../../src/work/runs/floor-binding.ts';
import type { RunCommand } from '../../../src/work/runs/run-events.ts';
import type { RunState } from '../../../src/work/runs/run.ts';
import type { Command } from '../../../src/turns/floor/command.ts';
import { PLAIN_SETTINGS } from '../../../src/turns/floor/floor.ts';
import type { Floor } from '../../../src/turns/floor/floor.ts';
import { openFloorStore } from '../../../src/turns/floor-store.ts';
import type { FloorStore } from '../../../src/turns/floor-store.ts';
import { findBackgroundRun, openQuestion, waitOf } from '../../../src/turns/floor/seats.ts';
import { seatOf } from '../../turns/floor/stage.ts';
import { AT, WAIT_MS, call, start, step } from './fixture.ts';

export const HALL = 'console:hall';
export const SEAT = { channel: HALL, agent: 'pm' };
export const BESIDE = { ...SEAT, isBackground: true } as const;
export const by = 'ann';

/** A floor and its runs in one store. pm gets turn #1, in which it may use tools. */
export class Bound {
  store: FloorStore;
  runs;
  at = AT;
  readonly #path: string;

  constructor(path = ':memory:') {
    this.#path = path;
    [this.store, this.runs] = this.#open();
  }

  /** Seats pm and dev, and grants pm the floor. pm has used no tool yet. */
  async granted(): Promise<this> {
    const seats = ['pm', 'dev'].map((agent) => seatOf(agent));
    await this.floor({ type: 'configure', settings: PLAIN_SETTINGS, seats });
    return this.floor({ type: 'join', agent: 'pm' }, { type: 'join', agent: 'dev' }, { type: 'start', by });
  }

  /** Stores a message and gives it to the floor. `bot`: its author is a program. */
  async hears(id: string, author: string, more: { readonly addressed?: readonly string[]; readonly bot?: true } = {}) {
    const { addressed = [], bot } = more;
    const said = { id, channel: HALL, text: 'x', sentAt: this.at, order: id, attachments: [], addressed };
    await this.store.accept({ ...said, author: { id: author, name: author }, ...(bot ? { bot } : {}) });
    return this.floor({ type: 'receive', id, order: id, addressed, ...(bot ? { fromProgram: bot } : {}) });
  }

  async begins(maxTurns?: number): Promise<this> {
    await this.granted();
    return this.floor({ type: 'use', agent: 'pm', epoch: 1, ...(maxTurns === undefined ? {} : { maxTurns }) });
  }

  async floor(...commands: readonly Command[]): Promise<this> {
    for (const command of commands) {
      const applied = await this.store.floors.apply(HALL, command, this.at);
      if (!applied.ok) throw new Error(`${JSON.stringify(command)} is refused: ${applied.refusal}`);
    }
    return this;
  }

  async run(command: RunCommand): Promise<string | null> {
    const applied = await this.runs.apply(runKeyOf(SEAT), command, this.at);
    return applied.ok ? null : applied.refusal;
  }

  /** Gives commands to pm's background run. Returns the refusal of each, or `null`. */
  async beside(...commands: readonly RunCommand[]): Promise<readonly (string | null)[]> {
    const results = await this.runs.applyAll(runKeyOf(BESIDE), commands, this.at);
    return results.map((result) => (result.ok ? null : result.refusal));
  }

  /** Starts a background run of pm, which requests a tool call in its first step. */
  async besideAsking(more: Parameters<typeof call>[1] = {}, requestedBy: string = by): Promise<this> {
    const work = {
      runType: 'background',
      waitMs: WAIT_MS,
      requestedBy,
      session: '1',
      prompt: 'look for dead links',
    } as const;
    const one = { ...call('a'), source: 'agent', verdict: 'ask', ...more } as const;
    await this.beside(start(work), step(1, [], '1'), { type: 'REQUEST', session: '1', calls: [one] });
    return this;
  }

  /** The status of pm's background run, and the state that the floor has of this run, in one line. */
  get aside(): string {
    const { status = 'idle', run = null } = this.runs.state(runKeyOf(BESIDE)) ?? {};
    const aside = findBackgroundRun(this.hall, 'pm');
    const floor = aside === undefined ? 'nothing' : (aside.question?.title ?? 'at work');
    return `${status}${run?.pause ? ` ${run.pause.reason}` : ''} · ${floor}`;
  }

  requests(id: string, more: Parameters<typeof call>[1] = {}, session = '1'): Promise<string | null> {
    return this.run({ type: 'REQUEST', session, calls: [{ ...call(id), source: 'agent', verdict: 'ask', ...more }] });
  }

  /** Marks the open request as shown in the channel, then allows or rejects it. */
  async answers(
    choice: 'allow' | 'reject',
    more: { readonly reason?: string; readonly always?: string } = {},
  ): Promise<this> {
    const { question } = openQuestion(this.hall) ?? { question: 0 };
    return this.floor({ type: 'shown', question }, { type: 'decide', by, choice, question, ...more });
  }

  get hall(): Floor {
    const floor = this.store.floors.state(HALL);
    if (floor === null) throw new Error('the hall has no floor');
    return floor;
  }

  get state(): RunState {
    const state = this.runs.state(runKeyOf(SEAT));
    if (state === null) throw new Error('pm has no run');
    return state;
  }

  /** pm's run and the current turn, in one line. */
  get both(): string {
    const { status, run } = this.state;
    const { turn } = this.hall;
    const wait = waitOf(turn);
    const floor = turn === null ? 'free' : `${turn.agent} #${turn.epoch} ${wait?.reason ?? turn.status}`;
    return `${status}${run?.pause ? ` ${run.pause.reason}` : ''} · ${floor}`;
  }

  get calls(): readonly string[] {
    return (this.state.run?.calls ?? []).map(
      ({ id, status, cleared }) => `${id} ${cleared && status === 'pending' ? 'cleared' : status}`,
    );
  }

  async dies(): Promise<this> {
    await this.store.close();
    [this.store, this.runs] = this.#open();
    await this.store.recover();
    return this.floor({ type: 'restart' });
  }

  /** Recovers a store whose file was written by another process. */
  async recovers(): Promise<this> {
    await this.store.recover();
    return this;
  }

  #open() {
    const [path, now] = [this.#path, () => AT];
    const words = () => null;
    const store = openFloorStore({ path, clock: { now }, machine: floorWithWork, textLimit: () => 4_000, words });
    return [store, store.host(runOnFloor)] as const;
  }
}
