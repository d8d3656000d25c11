import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { createAcpBackend } from '../../../src/agents/acp.ts';
import type { AgentBackend, AgentSession } from '../../../src/agents/backend.ts';
import type { Choice } from '../../../src/turns/core/settings.ts';
import { createVerbServer } from '../../../src/agents/verb-server.ts';
import { person, prompt, recorder } from '../conversation.ts';
import { REAL_AGENTS } from './agents.ts';
import type { RealAgent } from './agents.ts';
import { startModel } from './mock.ts';
import type { Model } from './mock.ts';

/**
 * Runs real coding agents from the npm registry against a model's service on this machine, and says for each what it did.
 * `node test/agents/real/main.ts [name …]`; one that cannot be installed is skipped, and said so.
 */
const FOLDER = 'node_modules/.cache/conch-real-agents';
const SEAT = { channel: 'console:demo', agent: 'dev', name: 'Developer', persona: '' };

type World = { readonly model: Model; readonly backend: AgentBackend; readonly work: string };
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

const PARTS: readonly Part[] = [
  {
    name: 'prompt',
    run: async (session) => {
      const turn = begin(session, 'TASK-plain: answer.');
      const { how } = await turn.over;
      return must(
        how === 'completed' && turn.said().join() === 'A plain answer.',
        `${how}, said ${turn.said().join('|')}`,
      );
    },
  },
  { name: 'ping', run: async (session) => `answered in ${await timed(() => session.ping())} ms` },
  {
    name: 'verb',
    run: async (session) => {
      const turn = begin(session, 'TASK-say: use the tool "say".');
      const { how } = await turn.over;
      return must(
        turn.said().includes('Said by a tool.'),
        `${how}, said ${turn.said().join('|')}, asked ${turn.asked.length}`,
      );
    },
  },
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

async function tryOut(agent: RealAgent): Promise<number> {
  const version = JSON.parse(readFileSync(`${FOLDER}/node_modules/${agent.package}/package.json`, 'utf8')) as {
    version: string;
  };
  process.stdout.write(`\n${agent.name} (${agent.package} ${version.version})\n`);
  const work = mkdtempSync(`${tmpdir()}/conch-real-`);
  const home = mkdtempSync(`${tmpdir()}/conch-home-`);
  const model = await startModel();
  const verbs = createVerbServer();
  const backend = createAcpBackend({
    profile: agent.profile,
    command: `${process.cwd()}/${FOLDER}/node_modules/.bin/${agent.program}`,
    args: agent.args,
    env: {
      HOME: home,
      XDG_DATA_HOME: `${home}/data`,
      XDG_CONFIG_HOME: `${home}/config`,
      ...agent.environment(model.url, home),
    },
    cwd: work,
    verbs,
  });
  let failed = 0;
  try {
    const opening = timed(async () => void (session = await backend.open(SEAT)));
    let session: AgentSession | null = null;
    process.stdout.write(`  open: ${await opening} ms\n`);
    for (const part of PARTS) {
      if (session === null) break;
      failed += await tryPart(part, session, { model, backend, work });
    }
    await (session as AgentSession | null)?.close();
  } catch (error) {
    failed += 1;
    process.stdout.write(`  FAILED open: ${String(error)}\n`);
  }
  await Promise.all([verbs.close(), model.stop()]);
  for (const folder of [work, home]) rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
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
let failures = 0;
for (const agent of REAL_AGENTS.filter(({ profile }) => wanted.length === 0 || wanted.includes(profile))) {
  if (isInstalled(agent)) failures += await tryOut(agent);
  else process.stdout.write(`\n${agent.name}: skipped, ${agent.package} could not be installed\n`);
}
process.exitCode = failures === 0 ? 0 : 1;
