import { spawn } from 'node:child_process';
import { appendFileSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { editFor, treeIn } from '../../examples/crew/edits.ts';
import type { Tree } from '../../examples/crew/edits.ts';
import type { CourseName, Script } from './courses.ts';

/** The prompt and the place of a scripted worker. `call`: the number of its ticket's prompt, from 1. */
type Scene = {
  readonly folder: string;
  readonly ticket: string;
  readonly course: CourseName;
  readonly call: number;
  readonly prompt: string;
};

/** The end of a scripted worker's step. */
export type Act =
  | { readonly do: 'say'; readonly text: string }
  | { readonly do: 'ask'; readonly question: string }
  | { readonly do: 'fail'; readonly why: string }
  | { readonly do: 'hang' };

/** The question that a worker asks people. */
export const QUESTION = 'Which number do you want?';
/** A file that shows people that a worker is in the middle of its work. */
export const HALF = 'half.txt';

/** The scene of this process, from the variables that the trial sets. Counts the prompt. */
export function sceneOf(prompt: string): Scene & { readonly stepMs: number } {
  const { CONCH_TICKET: ticket = '', CREW_STATE: state = '/tmp', CREW_STEP_MS: stepMs = '0' } = process.env;
  const script = JSON.parse(process.env['CREW_SCRIPT'] ?? '{}') as Script;
  mkdirSync(state, { recursive: true });
  appendFileSync(join(state, ticket), '.');
  const call = readFileSync(join(state, ticket), 'utf8').length;
  return { folder: process.cwd(), ticket, course: script[ticket] ?? 'works', call, prompt, stepMs: Number(stepMs) };
}

/**
 * Performs one step: changes the folder and returns how the step ends. Reads the tree and no memory, so a repeated step
 * after a kill makes no edit twice.
 */
export function performStep(scene: Scene): Act {
  const { prompt, course, call } = scene;
  if (prompt.includes('both sides meet here'))
    return say(prompt.includes('AGREED:') ? 'I keep both.\nAGREED: both lines stay' : 'My line must stay.');
  const tree = treeIn(scene.folder);
  const isMending = prompt.includes('cannot be merged') || prompt.includes('The tests of ticket');
  const early = isMending ? null : EARLY[course]?.(call, tree, scene);
  if (early != null) return early;
  if (isMending) tree.mergeMain();
  editFor(scene.ticket)(tree);
  tree.commit(`Do ${scene.ticket}`);
  return { do: 'say', text: 'The ticket is finished.\nDONE' };
}

const say = (text: string): Act => ({ do: 'say', text });

/** The acts of a course before the ticket is finished. `null`: finish the ticket now. */
const EARLY: Partial<Record<CourseName, (call: number, tree: Tree, scene: Scene) => Act | null>> = {
  prose: (call) => (call === 1 ? say('I am DONE soon.\n```\nDONE\n```') : null),
  quotes: (call) => (call === 1 ? say('The ticket says:\n> DONE') : null),
  dies(call) {
    if (call === 2) process.exit(1);
    return call === 1 ? say('I looked around.') : null;
  },
  hangs: (call) => (call === 1 ? { do: 'hang' } : null),
  limit: (call) => (call === 1 ? { do: 'fail', why: 'Usage limit reached: it resets in 20 s.' } : null),
  asks: (_call, _tree, { prompt }) => (prompt.includes(ANSWER) ? null : { do: 'ask', question: QUESTION }),
  unchanged: (call) => (call === 1 ? say('DONE') : null),
  'never commits'(_call, tree, { ticket }) {
    editFor(ticket)(tree);
    return say('I never commit.\nDONE');
  },
  slow: (call, tree) => (call < 20 ? progress(call, tree) : ended(tree)),
  endless: (call, tree) => (call <= 20 ? progress(call, tree) : ended(tree)),
  killed(call, tree) {
    if (call > 1) return null;
    tree.write(HALF, 'half of the work\n');
    return { do: 'hang' };
  },
  vanishes(call, tree) {
    if (call > 1) return null;
    rmSync(tree.folder, { recursive: true, force: true });
    return say('I cleaned up.');
  },
  leaves() {
    const serve = `require('net').createServer().listen(${process.env['CONCH_PORT_BASE'] ?? '0'}, '127.0.0.1')`;
    // The server runs in its own session, so it does not end with the worker's process group.
    spawn(process.execPath, ['-e', serve], { stdio: 'ignore', detached: true }).unref();
    return null;
  },
  meddles(_call, tree) {
    const path = '.tickets/t-01.md';
    tree.write(path, tree.read(path).replace('status: closed', 'status: open').concat('\nChanged by a worker.\n'));
    return null;
  },
};

/** People's answer to a worker's question. */
export const ANSWER = 'Take the number that the tests want.';

function progress(call: number, tree: Tree): Act {
  tree.write('progress.txt', `${call}\n`);
  return say(`Step ${call}.`);
}

function ended(tree: Tree): null {
  tree.remove('progress.txt');
  return null;
}
