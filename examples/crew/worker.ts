import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { z } from 'zod';
import { editFor, treeIn } from './edits.ts';
import { TITLES } from './repository.ts';

/**
 * A scripted worker without a model, and the guide in the crew's channel. Conch starts it for each prompt. It reads the
 * prompt as JSON, changes the worktree where it runs, and prints its texts as one JSON object per line.
 */
const promptSchema = z.object({
  text: z.string(),
  reason: z.string(),
  messages: z.array(z.object({ author: z.object({ name: z.string() }), text: z.string() })),
});
const { text: prompt, reason, messages } = promptSchema.parse(JSON.parse(readFileSync(0, 'utf8')));
const { CONCH_TICKET: ticket = '', DEMO_PACE: pace = '1' } = process.env;
/** The time between two sentences at the pace 1. */
const SENTENCE_MS = 2_500;
const QUESTION = 'Which number shall the helper return? Write a number into this thread.';
/** The answer to people in the crew's channel, where no worker reads. */
const GUIDE =
  'Workers listen in the threads of their tickets: write there. To have something done, point at your message or tap it, and press the sign of a ticket, "Make a ticket of it". "Crew of this channel" shows what waits for people. `/crew why src/list.js:3` tells who asked for a line of main, and `/help crew` lists all commands.';
const tree = treeIn(process.cwd());
const title = TITLES[ticket] ?? ticket;

await perform();

async function perform(): Promise<void> {
  if (ticket === '') return answerLine({ text: GUIDE });
  const [answer] = messages.flatMap(({ text }) => /-?\d{1,6}/.exec(text) ?? []);
  for (const { author, text } of messages)
    await say(`I read what ${author.name} wrote: "${text.slice(0, 200)}". I keep that in mind.`);
  if (prompt.includes('both sides meet here')) await meet();
  else if (prompt.includes('cannot be merged')) await resolveConflict();
  else if (prompt.includes('The tests of ticket')) await mend();
  else if (prompt.includes('Your ticket is') && reason === 'grant') await begin();
  else await work(answer);
}

/** Reads the ticket. The worker of t-01 asks people a question, and waits for their answer. */
async function begin(): Promise<void> {
  await say(`I read ${ticket}: ${title}.`);
  await pause(SENTENCE_MS * Number(pace));
  if (ticket === 't-01') answerLine({ wait_for: QUESTION });
  else await say('I have what I need. The change comes in my next step.');
}

async function work(answer: string | undefined): Promise<void> {
  const isAgain = tree.git('log', '--format=%s', 'main..HEAD').split('\n').includes(title);
  if (ticket === 't-01' && (answer !== undefined || !isAgain))
    await say(answer === undefined ? 'I read no number in that, so I take 1.' : `The helper returns ${answer}.`);
  editFor(ticket)(tree, answer);
  const changed = tree.git('-c', 'core.quotePath=false', 'status', '--porcelain').split('\n');
  const paths = changed.map((line) => line.trim().replace(/^\S+ +/, '')).filter((path) => path !== '');
  await say(
    paths.length === 0 ? 'I looked at it again, and have nothing to change.' : `I changed ${paths.join(', ')}.`,
  );
  await finish();
}

/** Speaks in a meeting about a conflict: first for the merged ticket, then as the worker that resolves the conflict. */
async function meet(): Promise<void> {
  const isOwn = prompt.includes('AGREED:');
  await say(
    isOwn ? 'Both lines can stay: mine goes after yours.' : `What ${ticket} added must stay. Its test needs it.`,
  );
  if (isOwn) answerLine({ text: 'AGREED: keep the lines of both tickets, the merged ones first' });
}

/** Merges main here, and keeps both sides' changes. */
async function resolveConflict(): Promise<void> {
  const [, files = 'the same files'] = /Files in conflict: (.*)\./.exec(prompt) ?? [];
  await say(`Somebody else changed ${files}, too. I merge main here, and keep what both of us did.`);
  tree.mergeMain();
  editFor(ticket)(tree);
  await finish();
}

async function mend(): Promise<void> {
  await say(
    'Alone my branch is green, together with main it is red. I merge main here, and do the same to what came in.',
  );
  tree.mergeMain();
  editFor(ticket)(tree);
  await finish();
}

/** Runs the tests, and commits. */
async function finish(): Promise<void> {
  const { status } = spawnSync(process.execPath, ['--test', '--test-isolation=none'], { stdio: 'ignore' });
  if (status !== 0) return answerLine({ text: 'The tests are red here. I look again in my next step.' });
  await say('The tests are green here. I commit.');
  tree.commit(title);
  answerLine({ text: 'The ticket is finished.\nDONE' });
}

async function say(text: string): Promise<void> {
  answerLine({ text });
  await pause(SENTENCE_MS * Number(pace));
}

function answerLine(words: object): void {
  process.stdout.write(`${JSON.stringify(words)}\n`);
}
