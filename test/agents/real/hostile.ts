import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { createAcpBackend } from '../../../src/agents/backends/acp/acp-backend.ts';
import { ACP_PROFILES } from '../../../src/agents/backends/acp/acp-profiles.ts';
import type { AcpProfile } from '../../../src/agents/backends/acp/acp-profiles.ts';
import type { AgentBackend, AgentSession } from '../../../src/agents/backends/backend.ts';
import { obeyedFiles } from '../../../src/agents/trust/agent-folder.ts';
import { scanFolder } from '../../../src/agents/trust/folder-scan.ts';
import { gateThat, person, prompt, recorder } from '../backends/conversation.ts';
import { REAL_AGENTS, homeIn, install, programOf } from './agents.ts';
import type { RealAgent } from './agents.ts';
import { HOSTILE_FILES, matchesOf, writeHostile } from './hostile-files.ts';
import type { HostileFile } from './hostile-files.ts';
import { openMarks } from './marks.ts';
import type { Marks } from './marks.ts';
import { startModel } from './mock.ts';
import type { Model } from './mock.ts';
import { SEAT } from './parts.ts';
import { runRaw } from './raw-agent.ts';
import { makeRepository } from '../../../src/cli/agent-check.ts';

/**
 * Runs each real coding agent in a repository with every file of its list. Each file that takes effect leaves a mark.
 * The agent runs without Conch (`control`: shows which marks are possible), then under Conch, and under Conch in an
 * ordinary repository. `node test/agents/real/hostile.ts [--json] [--each] [profile …]`: with `--each` the control runs
 * each file alone. The last line has the counts as JSON.
 */
type Sums = {
  agents: number;
  files: number;
  marks: number;
  keysSent: number;
  writesUnasked: number;
  opened: number;
  asked: number;
};

/** An agent's repository, the marks left by it, and the mock model. */
type World = {
  readonly agent: RealAgent;
  readonly base: string;
  readonly work: string;
  readonly env: Readonly<Record<string, string>>;
  readonly model: Model;
  readonly marks: Marks;
};

async function inWorld<T>(
  agent: RealAgent,
  files: readonly HostileFile[],
  act: (world: World) => Promise<T>,
): Promise<T> {
  const base = mkdtempSync(`${tmpdir()}/conch-hostile-`);
  const [work, home] = [`${base}/work`, `${base}/home`];
  mkdirSync(home);
  const model = await startModel();
  const marks = await openMarks(base, { folder: work, url: model.url });
  const env = { ...homeIn(home), ...agent.environment(model, home) };
  try {
    makeRepository(work);
    writeHostile(work, files, marks.mark);
    return await act({ agent, base, work, env, model, marks });
  } finally {
    await Promise.all([marks.stop(), model.stop()]);
    rmSync(base, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** Returns the names of all marks in the texts of these files. */
function marksIn(files: readonly HostileFile[]): readonly string[] {
  const names = new Set<string>();
  const note = (name: string): string => (names.add(name), name);
  const mark = { folder: '', file: note, shell: note, url: note };
  for (const { text, with: others = {} } of files) for (const make of [text, ...Object.values(others)]) make(mark);
  return [...names];
}

/** Runs an agent without Conch beside these files. Returns the marks, the errors, and the requests with the key. */
async function control(agent: RealAgent, files: readonly HostileFile[], without: readonly string[]) {
  return await inWorld(agent, files, async ({ base, work, env, marks }) => {
    const profile: AcpProfile = ACP_PROFILES[agent.profile];
    const kept = Object.entries(env).filter(([name]) => !without.includes(name));
    const failures = await runRaw({
      command: programOf(agent),
      args: profile.args,
      env: { PATH: process.env['PATH'] ?? '', ...Object.fromEntries(kept), ...agent.trust?.(work, `${base}/home`) },
      cwd: work,
      signIn: profile.signIn?.method ?? null,
      prompts: [...PROMPTS, ...files.flatMap(({ prompt: words = [] }) => words)],
      limitMs: LIMIT_MS,
    });
    return { marks: marks.left(), keys: marks.keys(), failures };
  });
}

/** Runs the control with all variables, and without those that hide the effect of a file. Returns the marks. */
async function controls(agent: RealAgent, files: readonly HostileFile[], each: boolean): Promise<ReadonlySet<string>> {
  const groups = each ? files.map((file) => [file]) : [files];
  const seen = new Set<string>();
  for (const group of groups) {
    const without = [...new Set(group.flatMap((file) => file.without ?? []))];
    const runs = without.length === 0 || !each ? [[], ...(without.length === 0 ? [] : [without])] : [without];
    for (const left of runs) {
      const { marks, keys, failures } = await control(agent, group, left);
      for (const mark of marks) seen.add(mark);
      say(
        `    control${left.length === 0 ? '' : ` without ${left.join()}`}: ${marks.length} marks, keys sent ${keys}${failures.length === 0 ? '' : ` (${failures.join('; ').slice(0, 200)})`}`,
      );
    }
  }
  if (!each) {
    const silent = files.filter(
      (file) => !marksIn([file]).some((name) => seen.has(name)) && marksIn([file]).length > 0,
    );
    for (const mark of await controls(agent, silent, true)) seen.add(mark);
  }
  return seen;
}

/** Creates the agent's backend without the variables `without`. `isTrusted`: people trust the files of its folder. */
function backendOf({ agent, base, work, env }: World, without: readonly string[], isTrusted = false): Started {
  const kept = Object.fromEntries(Object.entries(env).filter(([name]) => !without.includes(name)));
  const free = async (): Promise<void> => {};
  const start = { profile: agent.profile, command: programOf(agent), env: kept, cwd: work, trusted: true };
  const backend = createAcpBackend({ ...start, ...(isTrusted && { gate: { admit: free, glance: free } }) });
  const asks = async (): Promise<readonly string[]> => {
    const { files } = await scanFolder(work, obeyedFiles(agent.profile), { home: `${base}/home` });
    return files.map(({ path }) => path);
  };
  return { backend, asks };
}

/** An agent's backend. `asks`: returns the files that people must trust before a session opens. */
type Started = { readonly backend: AgentBackend; readonly asks: () => Promise<readonly string[]> };

async function told(session: AgentSession, text: string): Promise<readonly string[]> {
  const heard = recorder();
  const asked: string[] = [];
  const gate = gateThat(({ title = '' }) => (asked.push(title), 'reject'));
  const over = session.prompt(prompt({ messages: [person(1, text)], text }), { ...heard.report, gate });
  over.catch(() => {});
  const timer = setTimeout(() => void session.interrupt(1_000), LIMIT_MS);
  await over.catch((error: unknown) => say(`    prompt: ${String(error).slice(0, 200)}`));
  clearTimeout(timer);
  return asked;
}

/** Runs the agent as Conch starts it, in a folder with these files, trusted or not. */
async function guarded(agent: RealAgent, files: readonly HostileFile[], without: readonly string[], isTrusted = false) {
  return await inWorld(agent, files, async (world) => {
    const { backend, asks } = backendOf(world, without, isTrusted);
    const asked = isTrusted ? [] : await asks();
    let opened = false;
    try {
      const session = await backend.open(SEAT);
      opened = true;
      for (const text of [...PROMPTS, ...files.flatMap(({ prompt: words = [] }) => words)]) await told(session, text);
      await session.close();
    } catch (error) {
      if (opened || asked.length === 0) say(`    FAILED ${String(error).slice(0, 300)}`);
    }
    return { opened, asked, marks: world.marks.left(), keys: world.marks.keys() };
  });
}

/**
 * Runs the agent in an ordinary repository, and denies a write by its own tool and a write by command. Returns whether
 * a session opened, the files made, and the number of questions for each write.
 */
async function ordinary(agent: RealAgent) {
  return await inWorld(agent, [], async (world) => {
    const { backend, asks } = backendOf(world, []);
    try {
      const session = await backend.open(SEAT);
      const before = readdirSync(world.work);
      const questions = [
        await told(session, `TASK-write ${world.work}/written-by-agent: do it.`),
        await told(session, 'TASK-shell: make the file.'),
      ];
      await session.close();
      const made = readdirSync(world.work).filter((name) => !before.includes(name));
      return { opened: true, made, asked: questions.map(({ length }) => length) };
    } catch (error) {
      say(`    FAILED ${String(error).slice(0, 300)} ${(await asks()).join()}`);
      return { opened: false, made: [], asked: [] };
    }
  });
}

async function tryOut(agent: RealAgent, sums: Sums, each: boolean): Promise<void> {
  say(`\n${agent.name} (${agent.package} ${agent.version})`);
  install(agent);
  const files = HOSTILE_FILES[agent.profile];
  const without = [...new Set(files.flatMap((file) => file.without ?? []))];
  const fired = await controls(agent, files, each);
  const trusted = new Set<string>();
  for (const left of without.length === 0 ? [[]] : [[], without])
    for (const mark of (await guarded(agent, files, left, true)).marks) trusted.add(mark);
  for (const file of files) {
    const names = marksIn([file]).filter((name) => fired.has(name));
    const how = matchesOf(agent.profile, file.path).map(({ offBy }) =>
      offBy === undefined ? 'asks' : `off by ${offBy}`,
    );
    const still = names.filter((name) => trusted.has(name));
    const marks =
      names.length === 0
        ? 'listed from documentation: left no mark'
        : `${names.join(', ')}; trusted: ${still.join(', ') || 'none'}`;
    say(`  ${names.length > 0 ? '✓' : '·'} ${file.path}: ${marks} → ${[...new Set(how)].join(', ') || 'not listed'}`);
  }
  sums.files += files.length;
  const off = files.filter(({ path }) => matchesOf(agent.profile, path).every(({ offBy }) => offBy !== undefined));
  for (const [what, some] of [
    ['all of them', files],
    ['those that are off or not listed', off],
  ] as const) {
    for (const left of without.length === 0 ? [[]] : [[], without]) {
      const seen = await guarded(agent, some, left);
      say(
        `  ${what}: ${seen.opened ? 'opened' : `asks about ${seen.asked.length} files`}, marks ${seen.marks.join(', ') || 0}, keys sent ${seen.keys}`,
      );
      sums.marks += seen.marks.length;
      sums.keysSent += seen.keys;
      if (some === files && left.length === 0) sums[seen.opened ? 'opened' : 'asked'] += 1;
    }
  }
  const plain = await ordinary(agent);
  say(
    `  ordinary repository: ${plain.opened ? 'opened' : 'NOT opened'}, asked ${plain.asked.join(' and ')}, made ${plain.made.join(', ') || 'nothing'}`,
  );
  // An agent known to write without asking gets no session unless its configuration sets `trusted`.
  const known: AcpProfile = ACP_PROFILES[agent.profile];
  if (known.actsUnasked === undefined) sums.writesUnasked += plain.made.length;
  else say(`  needs "trusted": ${await refusalOf(agent)}`);
  const isAsking = plain.asked.every((count) => count > 0) || known.actsUnasked !== undefined;
  if (!plain.opened || !isAsking || fired.size === 0) failures.push(agent.name);
  sums.agents += 1;
}

/** Returns the error that refuses an agent which acts without asking and is not `trusted`. Throws without an error. */
async function refusalOf(agent: RealAgent): Promise<string> {
  return await inWorld(agent, [], async ({ work, env }) => {
    const backend = createAcpBackend({ profile: agent.profile, command: programOf(agent), env, cwd: work });
    return await backend.open(SEAT).then(
      () => Promise.reject(new Error(`${agent.name} is started although it acts unasked`)),
      (error: unknown) => String(error),
    );
  });
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

const PROMPTS = ['TASK-plain: answer.', 'TASK-shell: make the file.'];
const LIMIT_MS = 60_000;

const wanted = process.argv.slice(2).filter((word) => !word.startsWith('--'));
/** Agents that did not open or ask in an ordinary repository, or left no mark in the control run. */
const failures: string[] = [];
const sums: Sums = { agents: 0, files: 0, marks: 0, keysSent: 0, writesUnasked: 0, opened: 0, asked: 0 };
for (const agent of REAL_AGENTS)
  if (wanted.length === 0 || wanted.includes(agent.profile)) await tryOut(agent, sums, process.argv.includes('--each'));
say(`\n${JSON.stringify(sums)}`);
if (failures.length > 0) process.stderr.write(`failed: ${failures.join(', ')}\n`);
process.exitCode = sums.marks + sums.keysSent + sums.writesUnasked + failures.length === 0 ? 0 : 1;
