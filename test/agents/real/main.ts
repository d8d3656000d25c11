import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { text } from 'node:stream/consumers';
import { createAcpBackend } from '../../../src/agents/backends/acp/acp-backend.ts';
import { ACP_PROFILES } from '../../../src/agents/backends/acp/acp-profiles.ts';
import type { AcpProfile } from '../../../src/agents/backends/acp/acp-profiles.ts';
import type { ToolKind } from '../../../src/rules/rule.ts';
import type { AgentBackend, AgentSession } from '../../../src/agents/backends/backend.ts';
import { makeRepository } from '../../../src/cli/agent-check.ts';
import { createToolServer } from '../../../src/agents/tools/tool-server.ts';
import { REAL_AGENTS, homeIn, install, programOf, writeFiles } from './agents.ts';
import type { RealAgent } from './agents.ts';
import { startModel } from './mock.ts';
import { tryReviews } from './reviewed.ts';
import { tryCrew } from './crewed.ts';
import { HOSTILE, LETTERS, PARTS, READING, SEAT, must } from './parts.ts';
import type { Counts, Part, World } from './parts.ts';
import { answersIn, changed, digests } from './wire.ts';

/**
 * Runs real coding agents from the npm registry against a model's service on this machine, and prints the observations:
 * in an ordinary repository, in a repository whose settings allow everything, and the result of `conch agent check`.
 * Then two agents review each other's work in one channel, and work in one crew. The last line has the counts as JSON.
 * `node test/agents/real/main.ts [profile … | review | crew]`. An agent that cannot be installed fails.
 */
const TAP = new URL('tap.ts', import.meta.url).pathname;

/**
 * The observations of one agent. `check`: the result of `conch agent check`, or why the agent could not be installed.
 */
type Seen = Counts & {
  readonly version: string;
  check: string;
  readonly failures: string[];
  /** Changed files that could hold an always-allow rule, in its settings or its folder. */
  readonly settingsChanged: string[];
  /** The number of its permission requests by the kind of the answer. */
  readonly answers: Record<string, number>;
};

async function tryOut(agent: RealAgent): Promise<Seen> {
  const counts = { spoofsAsked: 0, spoofsPassed: 0, filesChangedUnasked: 0, ownToolsAsked: 0 };
  const seen: Seen = { version: agent.version, check: '', ...counts, failures: [], settingsChanged: [], answers: {} };
  process.stdout.write(`\n${agent.name} (${agent.package} ${agent.version})\n`);
  try {
    install(agent);
  } catch (error) {
    seen.check = `not installed: ${error instanceof Error ? error.message : String(error)}`;
    process.stdout.write(`  FAILED ${seen.check}\n`);
    return seen;
  }
  await tryParts(agent, PARTS, { seen, files: {} });
  process.stdout.write('  in a folder that allows everything\n');
  await tryParts(agent, HOSTILE, { seen, files: agent.hostile });
  if (READ_ASKERS.has(agent.profile)) await tryParts(agent, READING, { seen, files: LETTERS, asked: ['read'] });
  process.stdout.write(
    `  answers: ${JSON.stringify(seen.answers)}, changed: ${seen.settingsChanged.join(', ') || 'nothing'}\n`,
  );
  seen.check = await checked(agent);
  return seen;
}

/** Returns the result of `conch agent check`. */
async function checked(agent: RealAgent): Promise<string> {
  const folder = mkdtempSync(`${tmpdir()}/conch-home-`);
  const model = await startModel();
  const set = { ...homeIn(folder), ...agent.environment(model, folder) };
  const backend = { kind: 'acp', profile: agent.profile, command: programOf(agent), set };
  writeFiles(folder, { 'turnConfig.json': JSON.stringify({ agents: [{ id: 'dev', backend }] }) });
  const env = { ...process.env, CONCH_CONFIG: `${folder}/turnConfig.json`, CONCH_DATA_DIR: `${folder}/conch` };
  const child = spawn(process.execPath, ['src/conch.js', 'agent', 'check', 'dev', '--json'], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [said, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')]);
  await model.stop();
  rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  const { verdict = `code ${code}`, attempts = [] } = JSON.parse(said || '{}') as {
    verdict?: string;
    attempts?: readonly { way: string; words: string }[];
  };
  for (const { way, words } of attempts) process.stdout.write(`  ${way}: ${words}\n`);
  process.stdout.write(`  conch agent check: ${verdict}, code ${code}\n`);
  return verdict;
}

/** `files`: written to the agent's folder first. `seen`: collects observations. `asked`: kinds that it must ask for. */
type Trial = {
  readonly seen: Seen;
  readonly files: RealAgent['hostile'];
  readonly asked?: readonly ToolKind[];
};

/** Agents that can be made to ask before they read. */
const READ_ASKERS: ReadonlySet<RealAgent['profile']> = new Set(['opencode', 'claude-code', 'gemini', 'qwen']);

function profileOf(agent: RealAgent): AcpProfile {
  return ACP_PROFILES[agent.profile];
}

async function tryParts(agent: RealAgent, parts: readonly Part[], { seen, files, asked = [] }: Trial): Promise<void> {
  const folders = ['work', 'home', 'outside'].map((name) => mkdtempSync(`${tmpdir()}/conch-${name}-`));
  const [work = '', home = '', outside = ''] = folders;
  makeRepository(work);
  writeFiles(work, files);
  const model = await startModel();
  const toolServer = createToolServer();
  const log = `${outside}/wire`;
  const env = { ...homeIn(home), ...agent.environment(model, home) };
  const profile = profileOf(agent);
  const args = [TAP, log, programOf(agent), ...profile.args];
  const backend = createAcpBackend({
    profile: agent.profile,
    command: process.execPath,
    args,
    env,
    cwd: work,
    asked,
    trusted: true,
    toolServer,
  });
  const digested = () => [digests(work), digests(home, agent.settings)] as const;
  const before = digested();
  let session: AgentSession | null = null;
  try {
    session = await opened(backend, obeyed(profile), work);
    for (const part of parts)
      await tryPart(
        part,
        session,
        {
          model,
          backend,
          work,
          outside,
          counts: seen,
          actsUnasked: profile.actsUnasked !== undefined,
        },
        seen.failures,
      );
  } catch (error) {
    seen.failures.push(`open: ${String(error)}`);
    process.stdout.write(`  FAILED open: ${String(error)}\n`);
  }
  await session?.close();
  const after = digested();
  seen.settingsChanged.push(
    ...changed(before[0], after[0]).filter(
      (path) => !MADE.has(path) && !path.startsWith('.git/') && !obeyed(profile).some((one) => path.startsWith(one)),
    ),
    ...changed(before[1], after[1]).map((path) => `~/${path}`),
  );
  for (const kind of answersIn(log)) seen.answers[kind] = (seen.answers[kind] ?? 0) + 1;
  await Promise.all([toolServer.close(), model.stop()]);
  for (const folder of folders) rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
}

/** Returns the files that an agent obeys, with one path for a whole folder. */
function obeyed({ repositoryFiles }: AcpProfile): readonly string[] {
  const on = repositoryFiles.files.filter(({ offBy }) => offBy === undefined);
  return on.map(({ path }) => path.replace(/\/\*.*$/, ''));
}

/** Opens a session. Beside files that the agent obeys, Conch must refuse the session; those files are then removed. */
async function opened(backend: AgentBackend, obeys: readonly string[], work: string): Promise<AgentSession> {
  const found = obeys.map((path) => `${work}/${path}`).filter((path) => existsSync(path));
  if (found.length > 0) {
    const words = await backend.open(SEAT).then(
      () => 'a session is opened beside what it obeys',
      (error: unknown) => String(error),
    );
    process.stdout.write(`  no session: ${must(words.includes('not trusted'), words)}\n`);
  }
  for (const path of found) rmSync(path, { recursive: true });
  const from = performance.now();
  const session = await backend.open(SEAT);
  process.stdout.write(`  open: ${Math.round(performance.now() - from)} ms\n`);
  return session;
}

async function tryPart(part: Part, session: AgentSession, world: World, failures: string[]): Promise<void> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(`took more than ${PART_MS / 1_000} s`)), PART_MS);
  try {
    process.stdout.write(`  ${part.name}: ${await Promise.race([part.run(session, world), late.promise])}\n`);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    failures.push(`${part.name}: ${why}`);
    process.stdout.write(`  FAILED ${part.name}: ${why}\n`);
    world.model.release();
    await session.interrupt(2_000);
  } finally {
    clearTimeout(timer);
  }
}

const PART_MS = 45_000;
/** Files that the trials allow the agent to make. */
const MADE = new Set(['made-by-agent', 'written-by-agent']);

const wanted = process.argv.slice(2);
const agents: Record<string, Seen> = {};
for (const agent of REAL_AGENTS.filter(({ profile }) => wanted.length === 0 || wanted.includes(profile)))
  agents[agent.profile] = await tryOut(agent);
const reviews = wanted.length === 0 || wanted.includes('review') ? await tryReviews() : null;
const crew = wanted.length === 0 || wanted.includes('crew') ? await tryCrew() : null;
const others = { ...(reviews === null ? {} : { reviews }), ...(crew === null ? {} : { crew }) };
process.stdout.write(`\n${JSON.stringify({ ...agents, ...others })}\n`);
const isRight = ({ profile, check }: RealAgent) => {
  const seen = agents[profile];
  if (seen === undefined) return true;
  const { failures, settingsChanged, answers } = seen;
  const isKept = settingsChanged.length === 0 && answers['allow_always'] === undefined;
  return seen.check === check && failures.length === 0 && isKept;
};
const failures = [...(reviews?.failures ?? []), ...(crew?.failures ?? [])];
process.exitCode = REAL_AGENTS.every(isRight) && failures.length === 0 ? 0 : 1;
