import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { completeTexts } from '../../../src/config/announcements.ts';
import { defined } from '../../../src/lib/defined.ts';
import { systemClock, systemTimers } from '../../../src/lib/time.ts';
import { createBackends } from '../../../src/runtime/agent-factory.ts';
import { createLog } from '../../../src/runtime/log.ts';
import { openFloorStore } from '../../../src/turns/floor-store.ts';
import { announcementText } from '../../../src/turns/text/announcement-values.ts';
import type { CrewFact } from '../../../src/work/crews/crew-events.ts';
import type { Crew } from '../../../src/work/crews/crew.ts';
import { floorWithWork } from '../../../src/work/floor-with-work.ts';
import { load } from '../../config/world.ts';
import { startApp } from '../../runtime/start-app.ts';
import { REAL_AGENTS, homeIn, install, programOf, writeFiles } from './agents.ts';
import type { RealAgent } from './agents.ts';
import { COMMANDS, WRITES, called, startModel } from './mock.ts';
import type { Model, Reply } from './mock.ts';
import { must } from './parts.ts';

const CHANNEL = 'console:demo';
const LIMIT_MS = 240_000;
const SHARED = 'greeting.txt';

/** The file that each ticket adds, and its line. Two tickets add the same file, so that they conflict. */
const TICKETS: Readonly<Record<string, readonly [file: string, line: string]>> = {
  'c-1': [SHARED, 'hello'],
  'c-2': [SHARED, 'hallo'],
  'c-3': ['farewell.txt', 'bye'],
};

/** The result of a crew: merged tickets, conflicts, and failures of the trial. */
type Crewed = { tickets: number; conflicts: number; readonly failures: string[] };

/** Runs one crew with two real agents as workers, on three tickets. Two tickets conflict. */
export async function tryCrew(): Promise<Crewed> {
  const crewed: Crewed = { tickets: 0, conflicts: 0, failures: [] };
  const agents = ['opencode', 'claude-code'].map((profile) => REAL_AGENTS.find((each) => each.profile === profile));
  const [one, other] = agents;
  if (one === undefined || other === undefined) throw new Error('impossible: an agent is not listed');
  process.stdout.write(`\n${one.name} and ${other.name} work in one crew\n`);
  const base = realpathSync(mkdtempSync(`${tmpdir()}/conch-crewed-`));
  const models = [await startModel(worker(`${base}/shop`)), await startModel(worker(`${base}/shop`))];
  try {
    for (const agent of [one, other]) install(agent);
    makeShop(`${base}/shop`);
    const { crew, facts } = await runCrew(base, [one, other], models);
    judge(`${base}/shop`, { crew, facts, crewed });
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    crewed.failures.push(why);
    process.stdout.write(`  FAILED ${why}\n`);
  } finally {
    await Promise.all(models.map((model) => model.stop()));
    rmSync(base, { recursive: true, force: true, maxRetries: 5 });
  }
  return crewed;
}

type Seen = { readonly crew: Crew; readonly facts: readonly CrewFact[]; readonly crewed: Crewed };

function judge(repo: string, { crew, facts, crewed }: Seen): void {
  const say = (right: boolean, words: string): void => void process.stdout.write(`  ${must(right, words)}\n`);
  const format = '--format=%(trailers:key=Conch-Ticket,valueonly,separator=%x2C)';
  const merged = git(repo, 'log', '--first-parent', format, 'main').split('\n');
  const tickets = merged.filter((line) => line !== '').toSorted();
  crewed.tickets = tickets.length;
  say(tickets.join() === 'c-1,c-2,c-3', `merged on main, each once: ${tickets.join()}`);
  crewed.conflicts = facts.filter(({ type }) => type === 'conflicted').length;
  say(crewed.conflicts === 1, `conflicts: ${crewed.conflicts}`);
  for (const file of [SHARED, 'farewell.txt']) {
    const lines = git(repo, 'show', `main:${file}`).split('\n').toSorted().join();
    const wanted = Object.values(TICKETS).flatMap(([name, line]) => (name === file ? [line] : []));
    say(lines === wanted.toSorted().join(), `${file} on main has the lines ${lines}`);
  }
  const workers = new Set(crew.finished.map((ticket) => ticket.worker));
  say(workers.size === 2, `each of the workers ${[...workers].toSorted().join()} finished a ticket`);
  say(
    crew.workers.every(({ status }) => status === 'idle'),
    'both workers are idle',
  );
  const errors = facts.flatMap((fact) => (fact.type === 'errorCounted' ? [fact.why] : []));
  say(errors.length === 0, `errors: ${errors.join(', ') || 'none'}`);
  const left = existsSync(`${repo}/agents`) ? readdirSync(`${repo}/agents`) : [];
  const status = git(repo, 'status', '--porcelain', '--untracked-files=all');
  const branches = git(repo, 'branch', '--list', 'agent/*');
  say(
    left.join() + status + branches === '',
    `left over: ${[...left, branches, status].join(' ').trim() || 'nothing'}`,
  );
}

function makeShop(repo: string): void {
  mkdirSync(repo);
  git(repo, 'init', '-q', '-b', 'main');
  git(repo, 'config', 'user.name', 'Ann');
  git(repo, 'config', 'user.email', 'ann@example.org');
  const tickets = Object.entries(TICKETS).map(([id, [file, line]]) => [
    `.tickets/${id}.md`,
    `---\nid: ${id}\nstatus: open\ndeps: []\npriority: 2\n---\n# Make ${file}\n\nIt has the line "${line}".\n`,
  ]);
  writeFiles(repo, {
    ...Object.fromEntries(tickets),
    'bin/commit.sh': 'git add -A && git commit -qm "$1"\n',
    'bin/merge.sh': `git merge --no-edit main || { sed -i -e '/^[<=>]\\{7\\}/d' ${SHARED} && git add -A && git commit -qm "Merge main"; }\n`,
  });
  git(repo, 'add', '.');
  git(repo, 'commit', '-q', '-m', 'Begin');
}

function git(folder: string, ...args: readonly string[]): string {
  return execFileSync('git', ['-C', folder, ...args], { encoding: 'utf8' }).trim();
}

/** A scripted model of a worker: writes and commits the file of a ticket, or merges main, and answers DONE. */
function worker(repo: string): Reply {
  return (_task, { messages, tools = [] }) => {
    const texts = messages.map((message) => JSON.stringify(message));
    const at = texts.findLastIndex((text, index) => messages[index]?.role === 'user' && PROMPT.test(text));
    if (tools.length === 0 || at === -1) return { content: 'A ticket' };
    const [, isConflict, branch = ''] = [...(texts[at] ?? '').matchAll(new RegExp(PROMPT, 'g'))].at(-1) ?? [];
    const ticket = branch.slice(-'c-1'.length);
    const [file, line] = TICKETS[ticket] ?? ['', ''];
    const results = messages.slice(at + 1).filter(({ role }) => role === 'tool').length;
    const run = (command: string) => called(tools, COMMANDS, { command, description: 'Use git' });
    if (isConflict !== undefined) return results === 0 ? run('sh bin/merge.sh') : { content: 'It is merged.\nDONE' };
    if (results === 0) return called(tools, WRITES, { path: `${repo}/agents/${branch}/${file}`, content: `${line}\n` });
    return results === 1 ? run(`sh bin/commit.sh ${ticket}`) : { content: 'It is made.\nDONE' };
  };
}

/** Matches the prompts that name a worker's branch: the first prompt of a ticket, and the prompt about a conflict. */
const PROMPT = /(?:(Your branch)|on the branch) agent\/([A-Z]+-c-\d)/;

/** Runs the crew until all tickets are merged. The first worker is the first agent, the second worker the second. */
async function runCrew(
  base: string,
  agents: readonly RealAgent[],
  models: readonly Model[],
): Promise<Pick<Seen, 'crew' | 'facts'>> {
  const clock = systemClock();
  const backendOf = (index: number): object => {
    const [agent, model] = [agents[index], models[index]];
    if (agent === undefined || model === undefined) throw new Error(`impossible: there is no worker ${index}`);
    const home = `${base}/home-${index}`;
    mkdirSync(home, { recursive: true });
    const set = { ...homeIn(home), ...agent.environment(model, home) };
    return { kind: 'acp', profile: agent.profile, command: programOf(agent), set };
  };
  const config = load(
    {
      turnConfig: { coalesceMs: 0, receipts: false },
      agents: [
        { id: 'other', backend: backendOf(1) },
        { id: 'pm', backend: { kind: 'scripted', script: 'pm' } },
      ],
      channels: [{ id: CHANNEL, agents: ['pm'] }],
      tools: { allow: ['Read(**)', 'Edit(**)', 'Bash(sh bin/commit.sh *)', 'Bash(sh bin/merge.sh)'] },
      crews: [
        {
          id: 'shop',
          repo: `${base}/shop`,
          channel: CHANNEL,
          backend: backendOf(0),
          workers: 2,
          test: TEST,
          trusted: true,
          // The scripted model has no answers for meetings.
          meetingTurns: 0,
        },
      ],
    },
    { CONCH_DATA_DIR: `${base}/conch` },
  );
  const time = { clock, timers: systemTimers };
  const log = createLog({ level: 'warn', pretty: false, secrets: [], clock, destination: process.stderr });
  const backends = await createBackends({ config, ...time, log });
  const other = config.agents.find(({ id }) => id === 'other')?.backend;
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
      openThread: async (channel, name, key) => ({ id: `${channel}/${key}`, parent: channel, name }),
      post: async (channel, { speaker, text }) => {
        process.stdout.write(`  | ${channel} ${speaker?.name ?? 'Conch'}: ${text.replaceAll('\n', '\n  |   ')}\n`);
        return '';
      },
    },
    backendFor(agent) {
      if (agent.id !== 'shop-b' || agent.backend.kind !== 'acp' || other?.kind !== 'acp')
        return backends.backendFor(agent);
      const { profile, command } = other;
      const set = { ...agent.backend.set, ...other.set };
      return backends.backendFor({ ...agent, backend: { ...agent.backend, ...defined({ profile, command }), set } });
    },
    logged: (line) => void process.stdout.write(`  log: ${line.slice(0, 300)}\n`),
  });
  const facts: CrewFact[] = [];
  app.crews.onFacts((all) => void facts.push(...all));
  const state = () => app.crews.state('shop');
  try {
    await intake().command(CHANNEL, { id: 'ada', name: 'Ada', roles: [] }, '/crew run');
    const limit = performance.now() + LIMIT_MS;
    while (state()?.finished.length !== 3 || state()?.workers.some(({ status }) => status !== 'idle') === true) {
      if (performance.now() > limit) throw new Error(`three tickets took more than ${LIMIT_MS / 1_000} s`);
      await pause(50);
    }
    const crew = state();
    if (crew === null) throw new Error('impossible: there is no crew');
    return { crew, facts };
  } finally {
    await app.stop();
    await backends.stop();
  }
}

/** The test command of the crew. Fails while the file has Git's conflict markers. */
const TEST = `! grep -q "<<<<<<<" ${SHARED} 2>/dev/null`;
