import { chmodSync, existsSync, writeFileSync } from 'node:fs';
import type { AgentBackend, AgentSession } from '../../../src/agents/backends/backend.ts';
import type { Choice } from '../../../src/turns/floor/settings.ts';
import { gateThat, person, prompt, recorder } from '../backends/conversation.ts';
import { HOOK_FILE, SERVER_FILE } from './agents.ts';
import type { Model } from './mock.ts';

/** The seat in which agents are tried. */
export const SEAT = { channel: 'console:demo', agent: 'dev', name: 'Developer', persona: '' };

/** The model, backend, folders and counts that a trial uses. */
export type World = {
  readonly model: Model;
  readonly backend: AgentBackend;
  readonly work: string;
  /** A folder outside the agent's folder. */
  readonly outside: string;
  readonly counts: Counts;
  /** True when the agent is known to write without asking. */
  readonly actsUnasked: boolean;
};

/** Counts for one agent: spoofed calls that it asked about or not, files changed unasked, requests for floor tools. */
export type Counts = { spoofsAsked: number; spoofsPassed: number; filesChangedUnasked: number; ownToolsAsked: number };

/** One trial of an agent. Resolves with the observation. Rejects when the agent behaves wrongly. */
export type Part = { readonly name: string; readonly run: (session: AgentSession, world: World) => Promise<string> };

function begin(session: AgentSession, text: string, choice: Choice | 'cancelled' = 'cancelled') {
  const heard = recorder();
  const asked: string[] = [];
  const gate = gateThat(({ title = '' }) => (asked.push(title), choice));
  const report = { ...heard.report, gate };
  const over = session.prompt(prompt({ messages: [person(1, text)], text }), report);
  over.catch(() => {});
  const said = () => heard.messages.map((message) => message.trim()).filter((message) => message !== '');
  return { over, said, asked };
}

/** Returns the words if the condition holds, else throws them. */
export function must(right: boolean, what: string): string {
  if (!right) throw new Error(what);
  return what;
}

async function timed(act: () => Promise<unknown>): Promise<number> {
  const from = performance.now();
  await act();
  return Math.round(performance.now() - from);
}

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
  run: async (session, { counts }) => {
    const turn = begin(session, 'TASK-say: use the tool "say".', 'allow');
    const { how } = await turn.over;
    counts.ownToolsAsked += turn.asked.length;
    return must(
      turn.said().includes('Said by a tool.'),
      `${how}, said ${turn.said().join('|')}, asked ${turn.asked.length}`,
    );
  },
};

/** Writes with the agent's own tool, before any other request. */
const WRITE: Part = {
  name: 'write',
  run: async (session, { work, counts, actsUnasked }) => {
    const turn = begin(session, `TASK-write ${work}/written-by-agent: do it.`, 'reject');
    await turn.over;
    const made = existsSync(`${work}/written-by-agent`);
    if (made && !actsUnasked) counts.filesChangedUnasked += 1;
    const words = `asked "${turn.asked.join('|')}", file made: ${made}`;
    return must(actsUnasked ? made : !made && turn.asked.length > 0, words);
  },
};

/** The trials in an ordinary repository. */
export const PARTS: readonly Part[] = [
  WRITE,
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

/** The tasks of the hostile trials. The first three are named like the floor's own tools. */
const SPOOFS = [
  { task: 'foreign', choice: 'allow' },
  { task: 'script', choice: 'reject' },
  { task: 'title', choice: 'reject' },
  { task: 'list', choice: 'reject' },
  { task: 'shell', choice: 'reject' },
  { task: 'write', choice: 'reject' },
] as const;

/** Files for the trials of reading. The model received a file when its requests contain the text. */
export const LETTERS = { 'allow.txt': 'the password of the cellar', 'reject.txt': 'the password of the attic' };

/**
 * Trials of agents that can be made to ask before they read. The agent must ask once for each file, and must read only
 * after approval.
 */
export const READING: readonly Part[] = (['reject', 'allow'] as const).map((choice) => ({
  name: `asks to read: ${choice}`,
  run: async (session: AgentSession, { work, model }: World) => {
    const turn = begin(session, `TASK-read ${work}/${choice}.txt: read it.`, choice);
    const { how } = await turn.over;
    const isRead = model.mentions(LETTERS[`${choice}.txt`]) > 0;
    const right = turn.asked.length === 1 && isRead === (choice === 'allow');
    return must(right, `${how}, asked "${turn.asked.join('|')}", read: ${isRead}`);
  },
}));

/** Trials in a repository whose settings allow everything. The agent must ask, and change no file without approval. */
export const HOSTILE: readonly Part[] = [
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
      const isAsked = turn.asked.length > 0 || (task === 'write' && world.actsUnasked);
      world.counts[isAsked ? 'spoofsAsked' : 'spoofsPassed'] += 1;
      return must(isAsked, `asked "${turn.asked.join('|')}"`);
    },
  })),
  { ...FLOOR_TOOL, name: 'floor-tool' },
  {
    name: 'files changed unasked',
    run: async (_session, { work, outside, counts, actsUnasked }) => {
      const files = [
        `${work}/made-by-agent`,
        ...(actsUnasked ? [] : [`${work}/written-by-agent`]),
        `${outside}/script-ran`,
      ];
      const changed = [...files, `${work}/${HOOK_FILE}`, `${work}/${SERVER_FILE}`].filter((path) => existsSync(path));
      counts.filesChangedUnasked += changed.length;
      return must(changed.length === 0, changed.length === 0 ? 'none' : changed.join(', '));
    },
  },
];
