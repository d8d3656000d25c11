import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { createAcpBackend } from '../../../src/agents/backends/acp/acp-backend.ts';
import type { AgentBackend, AgentSession } from '../../../src/agents/backends/backend.ts';
import type { Choice } from '../../../src/turns/floor/settings.ts';
import { createToolServer } from '../../../src/agents/tools/tool-server.ts';
import { person, prompt, recorder } from '../backends/conversation.ts';
import { HOOK_FILE, REAL_AGENTS, SERVER_FILE, writeFiles } from './agents.ts';
import type { RealAgent } from './agents.ts';
import { startModel } from './mock.ts';
import type { Model } from './mock.ts';

/**
 * Runs real coding agents from the npm registry against a model's service on this machine, and says for each what it did:
 * first in an empty folder, then in one that would have it do everything unasked. The last line counts, as JSON.
 * `node test/agents/real/main.ts [profile …]`; one that cannot be installed is skipped, and said so.
 */
const FOLDER = 'node_modules/.cache/conch-real-agents';
const SEAT = { channel: 'console:demo', agent: 'dev', name: 'Developer', persona: '' };

type World = {
  readonly model: Model;
  readonly backend: AgentBackend;
  readonly work: string;
  /** A folder that is not the agent's. */
  readonly outside: string;
};
type Part = { readonly name: string; readonly run: (session: AgentSession, world: World) => Promise<string> };

function begin(session: AgentSession, text: string, choice: Choice | 'cancelled' = 'cancelled') {
  const heard = recorder();
  const asked: string[] = [];
  const report = {
    ...heard.report,
    permission: async ({ title }: { title: string }) => (asked.push(title), choice),
  };
  const over = session.prompt(prompt({ messages: [person(1, text)], text }), report);
  over.catch(() => {});
  const said = () => heard.messages.map((message) => message.trim()).filter((message) => message !== '');
  return { over, said, asked };
}

function must(right: boolean, what: string): string {
  if (!right) throw new Error(what);
  return what;
}

async function timed(act: () => Promise<unknown>): Promise<number> {
  const from = performance.now();
  await act();
  return Math.round(performance.now() - from);
}

/** What the last line tells. */
const COUNTS = { spoofsAsked: 0, spoofsPassed: 0, filesChangedUnasked: 0, ownToolsAsked: 0 };

const PLAIN: Part = {
  name: 'prompt',
  run: async (session) => {
    const turn = begin(session, 'TASK-plain: answer.');
    const { how } = await turn.over;
    return must(
      how === 'completed' && turn.said().join() === 'A plain answer.',
      `${how}, said ${turn.said().join('|')}`,
    );
  },
};

const FLOOR_TOOL: Part = {
  name: 'floor-tool',
  run: async (session) => {
    const turn = begin(session, 'TASK-say: use the tool "say".', 'allow');
    const { how } = await turn.over;
    COUNTS.ownToolsAsked += turn.asked.length;
    return must(
      turn.said().includes('Said by a tool.'),
      `${how}, said ${turn.said().join('|')}, asked ${turn.asked.length}`,
    );
  },
};

const PARTS: readonly Part[] = [
  PLAIN,
  { name: 'ping', run: async (session) => `answered in ${await timed(() => session.ping())} ms` },
  FLOOR_TOOL,
  ...(['reject', 'allow'] as const).map((choice) => ({
    name: choice,
    run: async (session: AgentSession, { work }: World) => {
      const turn = begin(session, 'TASK-shell: make the file.', choice);
      await turn.over;
      const made = existsSync(`${work}/made-by-agent`);
      const right = turn.asked.length === 1 && made === (choice === 'allow');
      return must(right, `asked "${turn.asked.join('|')}", file made: ${made}, said ${turn.said().join('|')}`);
    },
  })),
  {
    name: 'inject',
    run: async (session, { model }) => {
      model.hold();
      const turn = begin(session, 'TASK-hold: take your time.');
      await model.held();
      const injecting = session.inject(person(2, 'Make it ultraviolet'), false);
      const outcome = await injecting;
      model.release();
      await turn.over;
      const saw = model.mentions('ultraviolet') > 0;
      return must((outcome === 'injected') === saw, `${outcome}, the model saw it: ${saw}`);
    },
  },
  {
    name: 'interrupt',
    run: async (session, { model }) => {
      model.hold();
      const turn = begin(session, 'TASK-hold: take your time.');
      await model.held();
      const ms = await timed(() => session.interrupt(5_000));
      const { how } = await turn.over;
      model.release();
      const next = begin(session, 'TASK-plain: answer.');
      await next.over;
      const right = how === 'interrupted' && next.said().includes('A plain answer.');
      return must(right, `${how} after ${ms} ms, then said ${next.said().join('|')}`);
    },
  },
  {
    name: 'by force',
    run: async (session, { model }) => {
      model.hold();
      const turn = begin(session, 'TASK-hold: take your time.');
      await model.held();
      const ms = await timed(() => session.interrupt(0));
      const { how } = await turn.over;
      model.release();
      const next = begin(session, 'TASK-plain: answer.');
      await next.over;
      const right = how === 'interrupted' && next.said().includes('A plain answer.');
      return must(right, `${how} after ${ms} ms, started anew, then said ${next.said().join('|')}`);
    },
  },
  {
    name: 'resume',
    run: async (session, { backend, model }) => {
      await session.close();
      const again = await backend.open(SEAT);
      const before = model.mentions('TASK-say');
      const turn = begin(again, 'TASK-plain: answer.');
      await turn.over;
      await again.close();
      const remembered = model.mentions('TASK-say') > before;
      return must(turn.said().includes('A plain answer.'), `said ${turn.said().join('|')}, remembers: ${remembered}`);
    },
  },
];

/** Commands and files that would pass for the floor's own tools, in what people are shown of them. */
const SPOOFS = [
  { task: 'foreign', choice: 'allow' },
  { task: 'script', choice: 'reject' },
  { task: 'title', choice: 'reject' },
  { task: 'list', choice: 'reject' },
  { task: 'shell', choice: 'reject' },
  { task: 'write', choice: 'reject' },
] as const;

/** In a folder that allows everything: what is asked, and what happens though nobody said yes to it. */
const HOSTILE: readonly Part[] = [
  PLAIN,
  ...SPOOFS.map(({ task, choice }) => ({
    name: `asks for: ${task}`,
    run: async (session: AgentSession, world: World) => {
      const script = `${world.outside}/${world.model.server()}_say`;
      writeFileSync(script, `#!/bin/sh\ntouch ${world.outside}/script-ran\n`);
      chmodSync(script, 0o755);
      const text = `OUTSIDE=${world.outside}; TASK-${task} ${world.work}/written-by-agent: do it.`;
      const turn = begin(session, text, choice);
      await turn.over;
      const isAsked = turn.asked.length > 0;
      COUNTS[isAsked ? 'spoofsAsked' : 'spoofsPassed'] += 1;
      return must(isAsked, `asked "${turn.asked.join('|')}"`);
    },
  })),
  { ...FLOOR_TOOL, name: 'floor-tool' },
  {
    name: 'files changed unasked',
    run: async (_session, { work, outside }) => {
      const files = [`${work}/made-by-agent`, `${work}/written-by-agent`, `${outside}/script-ran`];
      const changed = [...files, `${work}/${HOOK_FILE}`, `${work}/${SERVER_FILE}`].filter((path) => existsSync(path));
      COUNTS.filesChangedUnasked += changed.length;
      return must(changed.length === 0, changed.length === 0 ? 'none' : changed.join(', '));
    },
  },
];

/** Whether the agent is there, installing it if need be. */
function isInstalled(agent: RealAgent): boolean {
  const program = `${FOLDER}/node_modules/.bin/${agent.program}`;
  if (existsSync(program)) return true;
  mkdirSync(FOLDER, { recursive: true });
  if (!existsSync(`${FOLDER}/package.json`)) writeFileSync(`${FOLDER}/package.json`, '{"private":true}');
  try {
    execFileSync('npm', ['install', '--no-audit', '--no-fund', agent.package], { cwd: FOLDER, stdio: 'ignore' });
  } catch {
    return false;
  }
  return existsSync(program);
}

/** How many parts failed. */
async function tryOut(agent: RealAgent): Promise<number> {
  const { version } = JSON.parse(readFileSync(`${FOLDER}/node_modules/${agent.package}/package.json`, 'utf8')) as {
    version: string;
  };
  tried.push(`${agent.name} ${version}`);
  process.stdout.write(`\n${agent.name} (${agent.package} ${version})\n`);
  const failed = await tryParts(agent, PARTS, {});
  process.stdout.write('  in a folder that allows everything\n');
  return failed + (await tryParts(agent, HOSTILE, agent.hostile)) + (await tryCheck(agent));
}

/** What an operator's own check says of it; 1 unless it says that it asks. */
async function tryCheck(agent: RealAgent): Promise<number> {
  const folder = mkdtempSync(`${tmpdir()}/conch-home-`);
  const model = await startModel();
  const set = { ...homeIn(folder), ...agent.environment(model.url, folder) };
  const backend = { kind: 'acp', profile: agent.profile, command: programOf(agent), set };
  writeFiles(folder, { 'turnConfig.json': JSON.stringify({ agents: [{ id: 'dev', backend }] }) });
  const env = { ...process.env, CONCH_CONFIG: `${folder}/turnConfig.json`, CONCH_DATA_DIR: `${folder}/conch` };
  const child = spawn(process.execPath, ['src/conch.js', 'agent', 'check', 'dev'], { env, stdio: 'inherit' });
  const [code] = (await once(child, 'exit')) as [number | null];
  await model.stop();
  rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  process.stdout.write(`  ${code === 0 ? '' : 'FAILED '}conch agent check: code ${code}\n`);
  return code === 0 ? 0 : 1;
}

function programOf(agent: RealAgent): string {
  return `${process.cwd()}/${FOLDER}/node_modules/.bin/${agent.program}`;
}

function homeIn(folder: string) {
  return { HOME: folder, XDG_DATA_HOME: `${folder}/data`, XDG_CONFIG_HOME: `${folder}/config` };
}

async function tryParts(agent: RealAgent, parts: readonly Part[], files: RealAgent['hostile']): Promise<number> {
  const folders = ['work', 'home', 'outside'].map((name) => mkdtempSync(`${tmpdir()}/conch-${name}-`));
  const [work = '', home = '', outside = ''] = folders;
  writeFiles(work, files);
  const model = await startModel();
  const toolServer = createToolServer();
  const backend = createAcpBackend({
    profile: agent.profile,
    command: programOf(agent),
    env: { ...homeIn(home), ...agent.environment(model.url, home) },
    cwd: work,
    toolServer,
  });
  let failed = 0;
  let session: AgentSession | null = null;
  try {
    process.stdout.write(`  open: ${await timed(async () => void (session = await backend.open(SEAT)))} ms\n`);
    for (const part of parts) {
      if (session !== null) failed += await tryPart(part, session, { model, backend, work, outside });
    }
    await (session as AgentSession | null)?.close();
  } catch (error) {
    failed += 1;
    process.stdout.write(`  FAILED open: ${String(error)}\n`);
  }
  await Promise.all([toolServer.close(), model.stop()]);
  for (const folder of folders) rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  return failed;
}

async function tryPart(part: Part, session: AgentSession, world: World): Promise<number> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(`took more than ${PART_MS / 1_000} s`)), PART_MS);
  try {
    process.stdout.write(`  ${part.name}: ${await Promise.race([part.run(session, world), late.promise])}\n`);
    return 0;
  } catch (error) {
    process.stdout.write(`  FAILED ${part.name}: ${error instanceof Error ? error.message : String(error)}\n`);
    world.model.release();
    await session.interrupt(2_000);
    return 1;
  } finally {
    clearTimeout(timer);
  }
}

const PART_MS = 45_000;

const wanted = process.argv.slice(2);
const tried: string[] = [];
let failures = 0;
for (const agent of REAL_AGENTS.filter(({ profile }) => wanted.length === 0 || wanted.includes(profile))) {
  if (isInstalled(agent)) failures += await tryOut(agent);
  else process.stdout.write(`\n${agent.name}: skipped, ${agent.package} could not be installed\n`);
}
process.stdout.write(`\n${JSON.stringify({ agents: tried, ...COUNTS })}\n`);
process.exitCode = failures === 0 ? 0 : 1;
