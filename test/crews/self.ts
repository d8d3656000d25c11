import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { leftOf } from './measure-copy.ts';
import { git } from '../../examples/crew/repository.ts';
import { eventsIn, startProgram } from './trial.ts';

const ROOT = new URL('../../', import.meta.url).pathname;
/** A part of Conch's tests that takes seconds and finds any fault of the two tickets. */
const TEST = 'node_modules/.bin/vitest run test/lib && node_modules/.bin/oxfmt --check src/lib test/lib';

const TICKETS: Readonly<Record<string, readonly [title: string, text: string]>> = {
  's-1': ['Say which day of the week an instant is', 'Add `weekdayOf` to `src/lib/time.ts`, in UTC, with a test.'],
  's-2': ['List all near words', 'Add `nearWords` to `src/lib/nearest.ts`, with a test.'],
};

/** The result of a crew on a clone of Conch. */
type SelfTrial = {
  readonly merged: number;
  readonly steps: number;
  readonly redTests: number;
  readonly conflicts: number;
  readonly seconds: number;
  readonly leftOver: readonly string[];
  /** The last commits of main. */
  readonly log: readonly string[];
};

/** Lets two workers do two tickets in a clone of the committed state of Conch, with its own tests. */
export async function performSelfTrial(): Promise<SelfTrial> {
  const folder = mkdtempSync(join(tmpdir(), 'conch-crew-self-'));
  const [repo, dataDir] = [join(folder, 'conch'), join(folder, 'data')];
  mkdirSync(dataDir);
  git(folder, 'clone', '--quiet', ROOT, repo);
  git(repo, 'checkout', '--quiet', '-B', 'main');
  git(repo, 'remote', 'remove', 'origin');
  git(repo, 'config', 'user.name', 'Ann');
  git(repo, 'config', 'user.email', 'ann@example.org');
  mkdirSync(join(repo, '.tickets'));
  for (const [id, [title, text]] of Object.entries(TICKETS))
    writeFileSync(
      join(repo, `.tickets/${id}.md`),
      `---\nid: ${id}\nstatus: open\ndeps: []\n---\n# ${title}\n\n${text}\n`,
    );
  git(repo, 'add', '.tickets');
  git(repo, 'commit', '--quiet', '-m', 'Add two tickets');
  const from = performance.now();
  await startProgram({
    repo,
    dataDir,
    workers: 2,
    kind: 'command',
    worker: 'self-worker.ts',
    prepare: [`ln -s ${ROOT}node_modules node_modules`],
    stepMs: 0,
    script: {},
    test: TEST,
    tickets: Object.keys(TICKETS).length,
    killAt: 0,
    people: null,
  });
  const facts = eventsIn(join(dataDir, 'events.jsonl')).map(({ fact }) => fact);
  const count = (type: string, verdict?: string) =>
    facts.filter((fact) => fact.type === type && (verdict === undefined || fact['verdict'] === verdict)).length;
  return {
    merged: count('merged'),
    steps: count('stepSent'),
    redTests: count('tested', 'red'),
    conflicts: count('conflicted'),
    seconds: Math.round((performance.now() - from) / 1_000),
    leftOver: await leftOf(repo, 2),
    log: git(repo, 'log', '--format=%h %s', '--first-parent', '-3', 'main').split('\n'),
  };
}
