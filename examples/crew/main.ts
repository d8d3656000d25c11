import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { loadConfig } from '../../src/config/load.ts';
import { thisWorld } from '../../src/config/world.ts';
import { gitIn } from '../../src/lib/git.ts';
import type { App } from '../../src/runtime/app.ts';
import { EXIT_CODES } from '../../src/runtime/exit-codes.ts';
import { runBot } from '../../src/runtime/process.ts';
import type { Values } from '../../src/turns/commands/parse.ts';
import { RepositoryError, checkGit } from '../../src/work/crews/git/repository.ts';
import { CREW, TICKETS, makeRepository } from './repository.ts';

/**
 * `npm run demo:crew`: makes a repository with twelve tickets in a temporary folder, and lets a crew of scripted
 * workers finish them. Removes the folder when it ends. `-- --votes`: each merge needs two votes; a scripted Ben casts
 * one of them. `-- --pace 2`: every step of a worker takes twice as long.
 */
const { values } = parseArgs({
  options: { votes: { type: 'boolean', default: false }, pace: { type: 'string', default: '1' } },
});
const pace = Number(values.pace);
const CHANNEL = 'console:shop';
const BEN = { id: 'demo:ben', name: 'Ben', roles: [] };
/** The person on the page, who starts the crew. */
const YOU = { id: 'console:you', name: 'You', roles: [] };
/** The time in which people can hold a merge, and Ben's time to read a merge, in seconds at the pace 1. */
const WINDOW_SECONDS = 20;
const READING_SECONDS = 8;
/** The time limit of a worker's question. It is longer than any demo. */
const QUESTION_SECONDS = 86_400;

async function show(): Promise<number> {
  if (!(pace > 0)) return refused('Expected --pace with a number above 0, such as 0.5');
  try {
    await checkGit(gitIn(tmpdir(), process.env));
  } catch (error) {
    if (error instanceof RepositoryError) return refused(error.message);
    throw error;
  }
  const root = mkdtempSync(join(tmpdir(), 'conch-demo-'));
  process.on('exit', () => rmSync(root, { recursive: true, force: true }));
  // Closing the terminal also ends the demo in good order.
  process.on('SIGHUP', () => process.kill(process.pid, 'SIGTERM'));
  const repo = makeRepository({ root });
  writeFileSync(join(root, 'turnConfig.json'), JSON.stringify(configOf(repo), null, 2));
  // The demo reads no settings of another Conch, and no ".env" of the present folder.
  process.chdir(root);
  for (const name of ['CONCH_CONFIG', 'CONCH_DATA_DIR']) delete process.env[name];
  let page = '';
  return runBot(loadConfig(thisWorld()), {
    greet: (link) => (page = link),
    onReady: (app) => begin(app, page),
  });
}

function configOf(repo: string): object {
  const worker = fileURLToPath(new URL('worker.ts', import.meta.url));
  const set = { DEMO_PACE: `${pace}` };
  const backend = { kind: 'command', command: process.execPath, args: [worker], output: 'jsonl', set };
  const window = { mergeWindow: { seconds: Math.max(1, Math.round(WINDOW_SECONDS * pace)) } };
  const merge = values.votes ? { merge: 'ask', votes: 2 } : window;
  return {
    adapters: { console: { port: 0 } },
    turnConfig: { waitTimeoutSeconds: QUESTION_SECONDS },
    agents: [{ id: 'guide', backend }],
    channels: [{ id: CHANNEL, name: CREW, agents: ['guide'] }],
    // The demo made the files of the repository itself.
    crews: [{ id: CREW, repo, channel: CHANNEL, workers: 4, backend, trusted: true, ...merge }],
    // Hides the warning that nobody can give a second vote: the demo plays that voter itself.
    log: { level: values.votes ? 'error' : 'warn' },
  };
}

/** Starts the crew, plays Ben, and prints what to try. */
function begin(app: App, page: string): void {
  const give = (person: typeof YOU, verb: 'run' | 'answer', more: Values = {}): void =>
    void Promise.resolve(app.crews.commands.run(verb, { channel: CHANNEL, person, values: more }));
  const benVotes = (worker: string): void =>
    void setTimeout(() => give(BEN, 'answer', { worker, words: 'merge' }), READING_SECONDS * 1_000 * pace).unref();
  app.crews.onFacts((facts) => {
    for (const fact of facts) {
      // Ben votes for a held merge only after another person has voted.
      const isAsked =
        (fact.type === 'waited' && fact.for !== 'held') || (fact.type === 'voted' && fact.voter !== BEN.id);
      if (values.votes && isAsked) benVotes(fact.worker);
      if (fact.type === 'merged' && app.crews.state(CREW)?.finished.length === Object.keys(TICKETS).length)
        tell('All twelve tickets are merged.');
    }
  });
  give(YOU, 'run');
  tell(invitation(page));
}

function invitation(page: string): string {
  const hold = values.votes
    ? 'Press Hold at a merge'
    : `Each merge is announced ${WINDOW_SECONDS} s before. Press Hold`;
  const vote = values.votes
    ? 'Each merge needs two votes. Press Merge. Ben, who is play-acted, votes too.'
    : 'Have each merge need your vote and that of a colleague: npm run demo:crew -- --votes';
  return `
Four play-acted workers finish the twelve tickets of a repository in a few minutes. No model, no key.
Open the page, and press "Crew of this channel" there: ${page}

  Answer    The worker of t-01 asks which number its helper shall return. Open its thread, and write one.
  Hold      ${hold}, read the thread, and then press Merge, or send the worker back with Continue work.
  Conflict  t-05 and t-06 change the same lines. In the thread of the later one both workers meet first: write there, too.
  Decide    t-11 deletes a module, so fewer tests run, and Conch asks people. Press Merge if you agree, for each new commit.
  Vote      ${vote}

Ctrl-C ends the demo and removes its folder.
`;
}

function tell(text: string): void {
  process.stdout.write(`${text}\n`);
}

/** Prints why the demo cannot start. Returns the exit code. */
function refused(why: string): number {
  process.stderr.write(`${why}\n`);
  return EXIT_CODES.usage;
}

process.exitCode = await show();
