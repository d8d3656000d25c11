import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { AgentBackend, AgentSession } from '../../src/agents/backends/backend.ts';
import type { Fact } from '../../src/turns/floor/fact.ts';
import { openFloorStore } from '../../src/turns/floor-store.ts';
import { floorWithWork } from '../../src/work/floor-with-work.ts';
import { systemClock, systemTimers } from '../../src/lib/time.ts';
import { load } from '../config/world.ts';
import { waitOf } from '../../src/turns/floor/seats.ts';
import { startApp } from '../runtime/start-app.ts';

const CHANNEL = 'console:demo';

/**
 * The whole program with one channel in memory. dev uses this backend; pm and qa post their own name. `posts`: lines
 * "Name: text".
 */
export async function openChannel(backend: AgentBackend, turnConfig: object = {}) {
  // A review must not store work in the repository of these tests.
  const folder = mkdtempSync(join(tmpdir(), 'conch-channel-'));
  const clock = systemClock();
  const posts: string[] = [];
  const drafts: string[] = [];
  const logged: string[] = [];
  const store = openFloorStore({
    path: ':memory:',
    machine: floorWithWork,
    clock,
    textLimit: () => 4_000,
    words: () => null,
  });
  const { app, broken, intake } = await startApp({
    config: load(
      {
        turnConfig: { coalesceMs: 0, receipts: false, ...turnConfig },
        agents: AGENTS.map(([id, name]) => ({
          id,
          name,
          backend: { kind: 'command', command: 'unused', cwd: folder },
        })),
        channels: [{ id: CHANNEL, agents: AGENTS.map(([id]) => id) }],
      },
      { CONCH_DATA_DIR: folder },
    ),
    store,
    time: { clock, timers: systemTimers },
    adapter: {
      name: 'console',
      capabilities: { textLimit: 4_000 },
      post: async (_channel, { speaker, text }) => String(posts.push(`${speaker?.name}: ${text}`)),
      draft: (_channel, { id }, _epoch, text) => void (id === 'dev' && text !== null && drafts.push(text)),
    },
    backendFor: ({ id, name }) => (id === 'dev' ? backend : saying(`${name} here.`)),
    logged: (line) => void logged.push(line),
  });
  await until(() => store.floors.state(CHANNEL)?.seats.every(({ status }) => status === 'QUEUED') === true);
  const facts = () => store.floors.journal(CHANNEL, 1_000).map(({ fact }) => fact);
  let written = 0;
  return {
    posts,
    drafts,
    logged,
    broken,
    /** Sends a message as a person. */
    async write(text: string): Promise<void> {
      written += 1;
      const author = { id: 'u1', name: 'Anna' };
      const message = { id: `m${written}`, channel: CHANNEL, author, text, sentAt: clock.now(), addressed: [] };
      await intake().message({ ...message, order: String(written).padStart(6, '0'), attachments: [] });
    },
    /** Starts a review of pm's work by dev, and resolves with its outcome. */
    async reviewed(): Promise<string> {
      await intake().command(CHANNEL, { id: 'ada', name: 'Ada', roles: [] }, '/review start pm dev build it');
      const outcome = () => app.reviews.state(CHANNEL)?.review?.outcome?.kind;
      await until(() => outcome() !== undefined);
      const { kind = '', why = '' } = app.reviews.state(CHANNEL)?.review?.outcome ?? {};
      return kind === 'passed' ? kind : `${kind}: ${why}`;
    },
    /** Resolves when the channel is idle and everything is posted. */
    async rests(): Promise<void> {
      const isAtRest = () =>
        store.floors.state(CHANNEL)?.turn === null && store.floors.state(CHANNEL)?.exchange === null;
      const said = () => facts().filter(({ type }) => type === 'said').length;
      await until(() => isAtRest() && posts.length === said());
    },
    /** Returns the ends of dev's turns. */
    ends(): readonly object[] {
      return facts().flatMap((fact) => (fact.type === 'turnEnded' && fact.agent === 'dev' ? [endOf(fact)] : []));
    },
    /** Returns the texts of the messages that the floor records as answered by dev's turns. */
    done(): readonly string[] {
      const ids = facts().flatMap((fact) => (fact.type === 'turnEnded' && fact.agent === 'dev' ? fact.answered : []));
      return ids.map((id) => store.message(id)?.text ?? '');
    },
    /** Returns the holder's id and what it waits for. */
    holder(): string | null {
      const turn = store.floors.state(CHANNEL)?.turn ?? null;
      return turn === null ? null : [turn.agent, waitOf(turn)?.reason].filter((word) => word !== undefined).join(' ');
    },
    stop: () => app.stop(),
  };
}

const AGENTS = [
  ['dev', 'Dev'],
  ['pm', 'PM'],
  ['qa', 'QA'],
] as const;

function endOf({ outcome, said, signalled }: Extract<Fact, { type: 'turnEnded' }>): object {
  return { outcome, said, signalled };
}

function saying(text: string): AgentBackend {
  const session: AgentSession = {
    prompt: async (_turn, report) => {
      report.text(text);
      return { how: 'completed' };
    },
    inject: async () => 'next-prompt',
    interrupt: async () => {},
    ping: async () => {},
    close: async () => {},
  };
  return { kind: 'saying', needsSignal: false, promisesToAsk: true, open: async () => ({ ...session }) };
}

async function until(holds: () => boolean): Promise<void> {
  const limit = performance.now() + 60_000;
  while (!holds()) {
    if (performance.now() > limit) throw new Error('it did not come to that within a minute');
    await pause(5);
  }
}
