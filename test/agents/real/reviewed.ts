import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { makeRepository } from '../../../src/cli/agent-check.ts';
import { completeTexts } from '../../../src/config/announcements.ts';
import { systemClock, systemTimers } from '../../../src/lib/time.ts';
import { createBackends } from '../../../src/runtime/agent-factory.ts';
import { createLog } from '../../../src/runtime/log.ts';
import { openFloorStore } from '../../../src/turns/floor-store.ts';
import { announcementText } from '../../../src/turns/text/announcement-values.ts';
import { floorWithWork } from '../../../src/work/floor-with-work.ts';
import type { Review } from '../../../src/work/reviews/review.ts';
import { load } from '../../config/world.ts';
import { startApp } from '../../runtime/start-app.ts';
import { REAL_AGENTS, homeIn, install, programOf, writeFiles } from './agents.ts';
import type { RealAgent } from './agents.ts';
import { EDITS, WRITES, called, startModel } from './mock.ts';
import type { Model, Reply } from './mock.ts';
import { must } from './parts.ts';

const CHANNEL = 'console:demo';
const WORK = 'greeting.txt';
/** The file that a reviewer tries to write. */
const FORBIDDEN = 'written-by-reviewer.txt';
const DENIED = 'Conch: ⛔ qa may not run ';
const FLAW = 'helo';
const MENDED = 'hello';
const LIMIT_MS = 120_000;

/** `isMeddling`: the reviewer tries to write a file before its first verdict. */
type Scene = { readonly dev: RealAgent; readonly qa: RealAgent; readonly isMeddling: boolean };

/** The number of reviews that ran, and their failures. */
type Reviewed = { scenes: number; readonly failures: string[] };

/** Runs four reviews with two agents: both agents in both roles, with and without a reviewer that tries to write. */
export async function tryReviews(): Promise<Reviewed> {
  const reviewed: Reviewed = { scenes: 0, failures: [] };
  const [one, other] = ['opencode', 'claude-code'].map((profile) =>
    REAL_AGENTS.find((each) => each.profile === profile),
  );
  if (one === undefined || other === undefined) throw new Error('impossible: an agent is not listed');
  for (const isMeddling of [false, true])
    for (const [dev, qa] of [
      [one, other],
      [other, one],
    ] as const) {
      process.stdout.write(
        `\n${dev.name} works, ${qa.name} reviews${isMeddling ? ' and tries to write a file' : ''}\n`,
      );
      try {
        install(dev);
        install(qa);
        await tryReview({ dev, qa, isMeddling });
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error);
        reviewed.failures.push(`${dev.profile}, ${qa.profile}: ${why}`);
        process.stdout.write(`  FAILED ${why}\n`);
      }
      reviewed.scenes += 1;
    }
  return reviewed;
}

async function tryReview(scene: Scene): Promise<void> {
  const base = realpathSync(mkdtempSync(`${tmpdir()}/conch-reviewed-`));
  const work = `${base}/work`;
  const [devModel, qaModel] = [await startModel(worker(work)), await startModel(reviewer(work, scene))];
  try {
    makeRepository(work);
    writeFiles(work, { 'staged.txt': 'staged by the user' });
    git(work, 'add', 'staged.txt');
    const before = stateOf(work);
    const { review, posts } = await runReview(base, scene, { dev: devModel, qa: qaModel });
    judge(review, { work, posts, before, scene });
  } finally {
    await Promise.all([devModel.stop(), qaModel.stop()]);
    rmSync(base, { recursive: true, force: true, maxRetries: 5 });
  }
}

type Observed = {
  readonly work: string;
  readonly posts: readonly string[];
  readonly before: string;
  readonly scene: Scene;
};

/** Returns the expected number of turns. OpenCode ends its turn at a denied call; the review then asks it again. */
function turnsOf({ qa, isMeddling }: Scene): number {
  return isMeddling && qa.profile === 'opencode' ? 5 : 4;
}

function judge(review: Review, { work, posts, before, scene }: Observed): void {
  const say = (right: boolean, words: string): void => void process.stdout.write(`  ${must(right, words)}\n`);
  for (const post of posts) process.stdout.write(`  | ${post.replaceAll('\n', '\n  |   ')}\n`);
  const { outcome, iterations, usage } = review;
  const verdicts = iterations.map(({ verdict }) => verdict);
  say(
    outcome?.kind === 'passed' && usage.turns === turnsOf(scene),
    `outcome ${outcome?.kind} ${outcome?.why}, turns ${usage.turns}`,
  );
  say(verdicts.join() === 'revise,pass', `verdicts ${verdicts.join()}`);
  say(
    review.done !== null && review.done === review.work?.tree,
    `DONE counts for tree ${review.done}, the work is tree ${review.work?.tree}`,
  );
  const stored = iterations.map(({ commit }) => (commit === null ? '' : git(work, 'show', `${commit}:${WORK}`).trim()));
  say(
    stored.join() === `${FLAW},${MENDED}`,
    `commits ${iterations.map(({ commit }) => commit).join()} hold ${stored.join()}`,
  );
  say(
    review.findings.every(({ status }) => status === 'fixed'),
    `findings ${review.findings.map(({ id, status }) => `${id} ${status}`).join()}`,
  );
  say(readFileSync(`${work}/${WORK}`, 'utf8').trim() === MENDED, `${WORK} is mended in the folder`);
  const after = stateOf(work);
  say(
    after === before,
    `index, branches, HEAD and other files ${after === before ? 'unchanged' : `changed:\n${before}\n→\n${after}`}`,
  );
  const told = posts.filter((post) => post.startsWith(DENIED) && post.includes(FORBIDDEN)).join(' | ');
  const isDenied = told !== '' && !existsSync(`${work}/${FORBIDDEN}`);
  if (scene.isMeddling) say(isDenied, `no file was written by the reviewer, the channel was told: ${told}`);
}

/** Returns the user's index, branches, HEAD and files, without the file that the primary agent writes. */
function stateOf(work: string): string {
  const refs = git(
    work,
    'for-each-ref',
    '--format=%(refname) %(objectname)',
    'refs/heads',
    'refs/tags',
    'refs/remotes',
    'refs/stash',
  );
  const status = git(work, 'status', '--porcelain', '--branch', '--untracked-files=all');
  const others = status.split('\n').filter((line) => line !== `?? ${WORK}`);
  const files = git(work, 'ls-files')
    .split('\n')
    .filter((path) => path !== '' && existsSync(`${work}/${path}`));
  const texts = files.map((path) => `${path}: ${readFileSync(`${work}/${path}`, 'utf8')}`);
  return [
    refs,
    git(work, 'symbolic-ref', 'HEAD'),
    git(work, 'rev-parse', 'HEAD'),
    git(work, 'ls-files', '--stage'),
    ...others,
    ...texts,
  ].join('\n');
}

function git(folder: string, ...args: readonly string[]): string {
  return execFileSync('git', ['-C', folder, ...args], { encoding: 'utf8' });
}

async function runReview(base: string, { dev, qa }: Scene, models: { readonly dev: Model; readonly qa: Model }) {
  const clock = systemClock();
  const config = load(
    {
      turnConfig: { coalesceMs: 0, receipts: false },
      agents: [agentOf('dev', base, dev, models.dev), agentOf('qa', base, qa, models.qa)],
      tools: { allow: ['Read(**)', 'Edit(**)'] },
      channels: [{ id: CHANNEL, agents: ['dev', 'qa'], review: { until: 'consensus' } }],
    },
    { CONCH_DATA_DIR: `${base}/conch` },
  );
  const time = { clock, timers: systemTimers };
  const log = createLog({ level: 'warn', pretty: false, secrets: [], clock, destination: process.stderr });
  const backends = await createBackends({ config, ...time, log });
  const posts: string[] = [];
  const { app, intake } = await startApp({
    config,
    time,
    store: openFloorStore({
      path: ':memory:',
      machine: floorWithWork,
      clock,
      textLimit: () => 4_000,
      words: (announcement, _channel, repeat) => announcementText(announcement, completeTexts({}), (id) => id, repeat),
    }),
    adapter: {
      name: 'console',
      capabilities: { textLimit: 4_000 },
      post: async (_channel, { speaker, text }) => String(posts.push(`${speaker?.name ?? 'Conch'}: ${text}`)),
    },
    backendFor: (agent) => backends.backendFor(agent),
    logged: (line) => void process.stdout.write(`  log: ${line.slice(0, 300)}\n`),
  });
  try {
    const started = await intake().command(
      CHANNEL,
      { id: 'ada', name: 'Ada', roles: [] },
      '/review start dev qa write a greeting',
    );
    must(started.ok, `the review did not start: ${JSON.stringify(started)}`);
    const current = () => app.reviews.state(CHANNEL)?.review ?? null;
    await until(
      () => current()?.outcome != null || ['arbiter', 'fail', 'budget'].includes(current()?.waiting?.for ?? ''),
      () => `${JSON.stringify(current()?.waiting)} ${posts.join(' / ')}`,
    );
    const review = current();
    if (review === null) throw new Error('impossible: there is no review');
    return { review, posts };
  } finally {
    await app.stop();
    await backends.stop();
  }
}

function agentOf(id: string, base: string, agent: RealAgent, model: Model): object {
  const home = `${base}/${id}`;
  mkdirSync(home);
  const set = { ...homeIn(home), ...agent.environment(model, home) };
  return { id, backend: { kind: 'acp', profile: agent.profile, command: programOf(agent), cwd: `${base}/work`, set } };
}

async function until(holds: () => boolean, seen: () => string = () => ''): Promise<void> {
  const limit = performance.now() + LIMIT_MS;
  while (!holds()) {
    if (performance.now() > limit) throw new Error(`it did not come to that within ${LIMIT_MS / 1_000} s: ${seen()}`);
    await pause(50);
  }
}

/** `own`: the messages from the last `brief` on. `isDone`: the last message is the result of a tool. */
function turnOf({ messages }: Parameters<Reply>[1], brief: string) {
  const text = JSON.stringify(messages);
  const own = text.slice(Math.max(0, text.lastIndexOf(brief)));
  return { own, isDone: messages.at(-1)?.role === 'tool', isAsked: text.includes(brief) };
}

/** A scripted primary agent: writes a flawed file, then fixes the flaw and answers the finding. Each turn says DONE. */
function worker(work: string): Reply {
  return (_task, request) => {
    const { own, isDone, isAsked } = turnOf(request, 'You are the primary agent.');
    const { tools = [] } = request;
    if (tools.length === 0 || !isAsked) return { content: 'A greeting' };
    const path = `${work}/${WORK}`;
    if (!own.includes('Open findings:'))
      return isDone ? { content: 'I wrote it.\nDONE' } : called(tools, WRITES, { path, content: `${FLAW}\n` });
    if (!isDone) return called(tools, EDITS, { path, before: FLAW, after: MENDED });
    return { content: 'I mended it.\nF1: fixed\nDONE' };
  };
}

/** A scripted reviewer: reports a finding, then passes the work. `isMeddling`: tries to write a file first. */
function reviewer(work: string, { isMeddling }: Scene): Reply {
  return (_task, request) => {
    const { own, isDone, isAsked } = turnOf(request, 'You are the reviewer.');
    const { tools = [] } = request;
    const isRepair = own.includes('no usable verdict');
    if (tools.length === 0 || !isAsked) return { content: 'A review' };
    if (own.includes('Your earlier findings')) return { content: 'PASS' };
    if (isMeddling && !isDone && !isRepair)
      return called(tools, WRITES, { path: `${work}/${FORBIDDEN}`, content: 'x' });
    return { content: `[major] ${WORK}:1 A letter is missing\nREVISE` };
  };
}
