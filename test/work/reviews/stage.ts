import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { AgentBackend, AgentSession, Report, TurnPrompt } from '../../../src/agents/backends/backend.ts';
import { systemClock, systemTimers } from '../../../src/lib/time.ts';
import { FloorTools } from '../../../src/agents/tools/floor-tools.ts';
import { openFloorStore } from '../../../src/turns/floor-store.ts';
import { floorWithWork } from '../../../src/work/floor-with-work.ts';
import type { Review } from '../../../src/work/reviews/review.ts';
import { completeTexts } from '../../../src/config/announcements.ts';
import { announcementText } from '../../../src/turns/text/announcement-values.ts';
import { load } from '../../config/world.ts';
import { startApp } from '../../runtime/start-app.ts';

export const CHANNEL = 'console:demo';

/** Plays a turn of an agent: returns its text, and may call the floor tools. */
export type Answers = (turn: TurnPrompt, tools: FloorTools, report: Report) => string | Promise<string>;

export type StageOptions = {
  readonly agents: Readonly<Record<string, Answers>>;
  /** The folder in which the agents work. Default: a new folder in no repository. */
  readonly folder?: string;
  readonly channel?: object;
  readonly turnConfig?: object;
  readonly tools?: object;
  readonly path?: string;
  /** Default: a new folder. Two programs never share one at the same time. */
  readonly dataDir?: string;
  /** The backend of an agent. Default: a backend that calls the function of the agent. */
  readonly backendFor?: (id: string) => AgentBackend;
  readonly secrets?: readonly string[];
  /** The backend of an agent in the configuration. Default: a command in the folder. */
  readonly configured?: (id: string) => object;
  /** Receives the log lines of the level "info" and above. */
  readonly logged?: (line: string) => void;
  /** False when some agent never gets a seat. */
  readonly allSeated?: boolean;
};

/** The whole program with one channel, whose agents are played by functions. */
export async function openStage({
  agents,
  folder = emptyFolder(),
  channel = {},
  turnConfig = {},
  tools = {},
  path = ':memory:',
  dataDir = mkdtempSync(join(tmpdir(), 'conch-review-data-')),
  backendFor = (id) => played(id, agents[id] ?? (() => '')),
  allSeated = true,
  secrets = [],
  logged = () => {},
  configured = () => ({ kind: 'command', command: 'unused', cwd: folder }),
}: StageOptions) {
  const clock = systemClock();
  const posts: string[] = [];
  const store = openFloorStore({
    path,
    machine: floorWithWork,
    clock,
    textLimit: () => 4_000,
    words: (announcement, _channel, repeat) => announcementText(announcement, completeTexts({}), (id) => id, repeat),
  });
  const ids = Object.keys(agents);
  const { app, broken, intake } = await startApp({
    config: load(
      {
        turnConfig: { coalesceMs: 0, receipts: false, ...turnConfig },
        agents: ids.map((id) => ({
          id,
          backend: configured(id),
        })),
        tools,
        channels: [{ id: CHANNEL, agents: ids, ...channel }],
      },
      { CONCH_DATA_DIR: dataDir },
    ),
    store,
    time: { clock, timers: systemTimers },
    adapter: {
      name: 'console',
      capabilities: { textLimit: 4_000 },
      post: async (_channel, { speaker, text }) => String(posts.push(`${speaker?.name ?? 'Conch'}: ${text}`)),
    },
    backendFor: ({ id }) => backendFor(id),
    secrets: () => secrets,
    logged,
    level: 'info',
  });
  const isSeated = ({ status }: { readonly status: string }): boolean => status === 'QUEUED';
  const seats = () => store.floors.state(CHANNEL)?.seats ?? [];
  await until(() => (allSeated ? seats().length > 0 && seats().every(isSeated) : seats().some(isSeated)));
  const ann = { id: 'ada', name: 'Ada', roles: [] };
  const stage = {
    app,
    dataDir,
    store,
    posts,
    broken,
    get review(): Review {
      const { review = null } = app.reviews.state(CHANNEL) ?? {};
      if (review === null) throw new Error('there was no review');
      return review;
    },
    command: (line: string) => intake().command(CHANNEL, ann, line),
    /** Resolves when the review is over, or waits for people or for a provider at its limit. */
    async settled(): Promise<Review> {
      await until(
        () =>
          stage.review.outcome !== null ||
          ['arbiter', 'fail', 'budget', 'provider'].includes(stage.review.waiting?.for ?? ''),
      );
      return stage.review;
    },
    /** Resolves when the review is over. */
    async over(): Promise<Review> {
      await until(() => stage.review.outcome !== null);
      return stage.review;
    },
    async write(text: string, author: { readonly id: string; readonly name: string } = ann): Promise<void> {
      const id = `m${(written += 1)}`;
      const message = { id, channel: CHANNEL, author, text, sentAt: clock.now(), addressed: [], attachments: [] };
      await intake().message({ ...message, order: String(written).padStart(6, '0') });
    },
    async stop(): Promise<void> {
      await app.stop();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
  return stage;
}

let written = 0;

/** A folder in no repository. */
function emptyFolder(): string {
  return mkdtempSync(join(tmpdir(), 'conch-review-stage-'));
}

export function played(agent: string, answers: Answers): AgentBackend {
  const session: AgentSession = {
    async prompt(turn, report) {
      const tools = new FloorTools(report, agent, turn);
      tools.text(await answers(turn, tools, report));
      return tools.ending;
    },
    inject: async () => 'next-prompt',
    interrupt: async () => {},
    ping: async () => {},
    close: async () => {},
  };
  return { kind: 'played', needsSignal: false, promisesToAsk: true, open: async () => ({ ...session }) };
}

export async function until(holds: () => boolean): Promise<void> {
  const limit = performance.now() + 60_000;
  while (!holds()) {
    if (performance.now() > limit) throw new Error('it did not come to that within 60 s');
    await pause(2);
  }
}
