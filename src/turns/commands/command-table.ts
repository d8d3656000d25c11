type ArgumentKind =
  | 'agent'
  | 'reviewer'
  | 'worker'
  | 'mode'
  | 'order'
  | 'seconds'
  | 'count'
  | 'message'
  | 'command'
  | 'question'
  | 'scope'
  | 'words';

/** One argument of a command. A command has at most one argument of each kind. */
export type Argument = {
  readonly name: string;
  readonly kind: ArgumentKind;
  readonly required: boolean;
  /** True when the argument takes all remaining words. Only the last argument of a command can. */
  readonly rest?: boolean;
  /** The largest allowed count; 50 by default. */
  readonly most?: number;
  readonly summary: string;
};

/** A named option such as "--steps 5". Options come before an argument that takes all remaining words. */
export type CommandOption = {
  readonly name: 'model' | 'steps' | 'tools' | 'json';
  readonly summary: string;
  /** The largest number that the option takes. Absent, and without `flag`: the option takes words. */
  readonly most?: number;
  /** True when the option takes no value. */
  readonly flag?: true;
};

/** The largest count that an argument accepts by default. */
export const MAX_COUNT = 50;

/** One command, with its arguments and options. */
export type CommandRow = {
  /** One word, or a group and a word: "stop", "floor skip". */
  readonly path: string;
  /** A shorter path that people can type. */
  readonly alias?: string;
  readonly summary: string;
  readonly arguments: readonly Argument[];
  readonly options?: readonly CommandOption[];
  /**
   * Who may use the command. `read`: everybody. `operate`: operators. If the configuration names the approvers of a
   * request, only they may use `allow`, `answer` and `reject` for the request; they need not be operators.
   */
  readonly needs: 'read' | 'operate';
  /** Set when the command only shows something if it has no arguments: then everybody may use it. */
  readonly withoutArguments?: 'read';
  readonly example: string;
};

function optional(name: string, kind: ArgumentKind, summary: string, more: Partial<Argument> = {}): Argument {
  return { name, kind, required: false, summary, ...more };
}

function shows<const Path extends string>(path: Path, summary: string, takes: readonly Argument[] = [], example = '') {
  return { path, summary, arguments: takes, needs: 'read', example: `/${path} ${example}`.trimEnd() } as const;
}

function changes<const Path extends string>(
  path: Path,
  summary: string,
  takes: readonly Argument[] = [],
  example = '',
  more: Pick<CommandRow, 'withoutArguments' | 'options'> = {},
) {
  return { ...shows(path, summary, takes, example), needs: 'operate', ...more } as const;
}

const AGENT: Argument = { name: 'agent', kind: 'agent', required: true, summary: 'an agent, by id or name' };
const RUNNING = optional('agent', 'agent', 'the agent; the holder if left out; "dev+" is the background run of dev');
const RUNNING_HERE = { ...RUNNING, summary: 'the agent; all of this channel if left out' };
const FILES = optional('files', 'words', 'the id shown with the question');
const QUESTION = optional('question', 'question', 'the number of the request');
const REST = { rest: true };
const SHOWS_WITHOUT_ARGUMENTS = { withoutArguments: 'read' } as const;

const WORKER: Argument = {
  name: 'worker',
  kind: 'worker',
  required: true,
  summary: 'the name of a worker of the crew',
};
const TICKET: Argument = { name: 'ticket', kind: 'words', required: true, summary: 'the id of a ticket' };
const PROPOSAL: Argument = { name: 'proposal', kind: 'words', required: true, summary: 'the id of a proposed ticket' };
const REQUEST: Argument = { name: 'question', kind: 'words', required: true, summary: "the id of the crew's request" };
const CHOICE: Argument = {
  name: 'choice',
  kind: 'words',
  required: true,
  summary: 'merge, continue, keep or unchanged',
};

/** All commands of a channel, for operators and for everybody. */
export const COMMANDS = [
  shows('floor status', 'Show who holds the floor, for how long, and who is next'),
  changes('floor start', 'Start an exchange without a message'),
  changes('floor grant', 'Give an agent the next turn', [AGENT], 'dev'),
  changes('floor skip', 'End the current turn; the next agent gets the floor', [
    optional('agent', 'agent', 'the agent; the holder if left out'),
  ]),
  changes(
    'floor extend',
    'Give the holder more time',
    [optional('seconds', 'seconds', 'how many seconds (60 if left out)')],
    '120',
  ),
  changes('floor pause', 'Grant no new turns until /floor resume'),
  changes('floor resume', 'Continue after a pause, limit or stop'),
  changes(
    'floor order',
    'Show or change the order in which agents get the floor',
    [
      optional('policy', 'order', 'how the next agent is chosen'),
      optional('agents', 'agent', 'the new queue, in order', REST),
    ],
    'round-robin dev qa pm',
    SHOWS_WITHOUT_ARGUMENTS,
  ),
  changes(
    'floor mode',
    'Show or change what a message does to the current turn',
    [optional('mode', 'mode', 'what happens to a message mid-turn')],
    'queue',
    SHOWS_WITHOUT_ARGUMENTS,
  ),
  changes('floor add', "Add an agent at the end of this channel's queue", [AGENT], 'qa'),
  changes('floor remove', 'Remove an agent from the channel; ends its turns and background runs', [AGENT], 'qa'),
  shows(
    'floor log',
    'Show the last turns and how they ended',
    [optional('count', 'count', 'how many turns (10 if left out)')],
    '5',
  ),
  shows('agent list', 'Show every agent, its state and its channels'),
  shows('agent status', 'Show one agent in detail', [AGENT], 'dev'),
  changes('agent enable', 'Enable an agent in all its channels', [AGENT], 'dev'),
  changes('agent disable', 'Disable an agent in all its channels; ends its turns and background runs', [AGENT], 'dev'),
  changes('agent restart', 'Stop an agent and start it again', [AGENT], 'dev'),
  changes(
    'agent trust',
    'Trust the files in an agent’s folder and start it; without an id, show the files',
    [AGENT, FILES],
    'dev 3f9a2c1b0e77d410',
  ),
  changes('agent distrust', 'Do not trust the files in an agent’s folder; stops the agent', [AGENT, FILES], 'dev'),
  changes('stop', 'End all turns and background runs now; messages stay; the floor rests until somebody writes'),
  changes(
    'allow',
    'Allow a request, once or always; without a number, show the open requests',
    [
      QUESTION,
      optional('scope', 'scope', 'once, or always by the rule of the request'),
      optional('rule', 'count', 'which of its rules (1 if left out)'),
    ],
    '8',
    SHOWS_WITHOUT_ARGUMENTS,
  ),
  changes(
    'reject',
    'Deny a request; without a number, show the open requests',
    [QUESTION, optional('why', 'words', 'the reason: recorded, and sent to the agent if it can read it', REST)],
    '8',
    SHOWS_WITHOUT_ARGUMENTS,
  ),
  changes(
    'answer',
    'Answer a form or link of a tool server; without a number, show the open requests',
    [QUESTION, optional('words', 'words', 'the answer, as the form says', REST)],
    '8 name=Ann',
    SHOWS_WITHOUT_ARGUMENTS,
  ),
  changes(
    'run start',
    'Start a background run; it reports here at the end',
    [AGENT, { name: 'what', kind: 'words', required: true, rest: true, summary: 'the task' }],
    'dev look for dead links',
    {
      options: [
        { name: 'model', summary: 'the model, by the name that its provider or agent uses' },
        { name: 'steps', summary: 'the step limit', most: 200 },
        { name: 'tools', summary: 'the only tools it may use: rules, separated by commas' },
      ],
    },
  ),
  shows('run status', 'Show an agent’s runs: steps, open tool calls, open requests', [RUNNING_HERE], 'dev'),
  shows(
    'run log',
    'Show the last tool calls, who allowed them, and their outcomes',
    [
      { ...RUNNING, summary: 'the agent; the holder, or the last one, if left out' },
      optional('count', 'count', 'how many calls (10 if left out)'),
    ],
    'dev 5',
  ),
  shows('run approvals', 'Show open requests and always-allow rules', [RUNNING_HERE], 'dev'),
  changes(
    'run revoke',
    'Revoke an always-allow rule',
    [AGENT, { name: 'rule', kind: 'words', required: true, summary: 'its number in /run approvals' }],
    'dev 1',
  ),
  changes('run pause', 'Pause a run before its next tool call', [RUNNING], 'dev'),
  changes('run resume', 'Continue a paused run', [RUNNING], 'dev'),
  changes(
    'run continue',
    'Continue a run at its limit, with more steps (as many again if left out)',
    [optional('steps', 'count', 'how many more steps', { most: 200 }), RUNNING],
    '20',
  ),
  changes('run complete', 'End a run with the result so far; its turn ends, too', [RUNNING], 'dev'),
  changes(
    'run abort',
    'Abort a run; its turn ends, too',
    [RUNNING, optional('why', 'words', 'the reason, for the record', REST)],
    'dev',
  ),
  changes(
    'run retry',
    'Retry a failed run, with optional words for its prompt',
    [AGENT, optional('words', 'words', 'what to do differently', REST)],
    'dev',
  ),
  changes(
    'review start',
    'Start a review: one agent works, the other reviews, until the work passes',
    [
      AGENT,
      { name: 'reviewer', kind: 'reviewer', required: true, summary: 'the agent that reviews, by id or name' },
      optional('iterations', 'count', 'the most iterations (10 if left out)', { most: 100 }),
      { name: 'task', kind: 'words', required: true, rest: true, summary: 'the task' },
    ],
    'dev qa 5 write the parser',
  ),
  {
    ...shows('review status', 'Show the review: iteration, findings, what it waits for'),
    options: [{ name: 'json', summary: 'as JSON, as /review export', flag: true }],
  },
  shows('review export', 'Show the review as JSON: state, ledger of findings, what was said', [
    optional('after', 'count', 'only lines after this one', { most: 1_000_000_000 }),
  ]),
  changes('review diff', 'Show changes since the last review'),
  changes('review accept', 'Accept the work of a review'),
  changes('review uphold', 'Decide that the reviewer is right; the work goes on'),
  changes(
    'review more',
    'Allow a review more iterations',
    [optional('iterations', 'count', 'how many more (5 if left out)', { most: 100 })],
    '5',
  ),
  changes('review cancel', 'Cancel a review; its turn ends', [
    optional('why', 'words', 'the reason, for the record', REST),
  ]),
  changes('crew run', 'Start the runner of the crew: it assigns tickets and prompts the workers'),
  changes('crew stop', 'Stop the runner of the crew; steps under way end as usual, or now', [
    optional('when', 'words', 'now, to cut steps under way; they run again later'),
  ]),
  changes(
    'crew spawn',
    'Add workers: one with this name, or this many',
    [optional('workers', 'words', 'a name or a number; --touches and patterns limit their tickets', REST)],
    '2',
  ),
  changes('crew assign', 'Give a ticket to an idle worker', [WORKER, TICKET], 'A c-1'),
  shows('crew ps', 'Show the workers of the crew and their tickets'),
  { ...shows('crew dashboard', 'Show workers, tickets, steps, tokens, cost, tests and merges'), alias: 'crew d' },
  shows('crew peek', 'Show the last 40 lines of a worker’s ticket', [WORKER], 'A'),
  shows('crew logs', 'Show all that was said and done for a worker’s ticket', [WORKER], 'A'),
  shows('crew tickets', 'Show the tickets that workers propose, with their texts', [
    optional('proposal', 'words', 'the id of a proposed ticket; all if left out'),
  ]),
  shows(
    'crew why',
    'Show which ticket and which message asked for a line of main, or for a commit',
    [{ name: 'place', kind: 'words', required: true, summary: 'a file and a line, or a commit', ...REST }],
    'src/list.js:12',
  ),
  changes('crew admit', 'Make a proposed ticket a ticket of the repository', [PROPOSAL], 'p-1'),
  changes('crew drop', 'Drop a proposed ticket', [PROPOSAL], 'p-1'),
  shows('crew doctor', 'Compare git with what the crew knows'),
  shows('crew export', 'Show the workers as JSON: session, worktree, branch, ticket and status of each'),
  changes('crew answer', 'Decide what a worker asks: merge, continue, keep or unchanged', [WORKER, CHOICE], 'A merge'),
  changes('crew merge', 'Merge the work of a worker that is done', [WORKER], 'A'),
  changes('crew hold', 'Hold the merge of a worker until a person decides', [WORKER], 'A'),
  changes(
    'crew retry',
    'Let a stuck worker try again, with optional words for its prompt',
    [WORKER, optional('words', 'words', 'what to do differently', REST)],
    'A',
  ),
  changes('crew kill', 'Reset a worker; its work is stored, its worktree stays until its next ticket', [WORKER], 'A'),
  changes('crew cleanup', 'Remove the worktree of a worker; its work is stored first', [WORKER], 'A'),
  changes('crew update', 'Take merged work that waits into your own copy of main'),
  changes(
    'crew accept',
    'Let tickets start although the tests of main are red, or allow a request of the crew',
    [optional('question', 'words', "the id of the crew's request; if left out, the red tests of main are accepted")],
    'setup-1f2e3d4c',
  ),
  changes('crew decline', 'Deny a request of the crew', [REQUEST], 'setup-1f2e3d4c'),
  {
    ...changes(
      'crew kept',
      'Show stored work; with a ref, "show" its changes, "apply" them for a worker, or "drop" it',
      [optional('what', 'words', 'show, apply or drop, a ref, and for apply a worker', REST)],
      'show refs/conch/kept/A-c-1/1',
    ),
    withoutArguments: 'read',
  },
  changes(
    'crew clean',
    'Reset all workers; their work is stored first. Asks before it does',
    [optional('yes', 'words', 'yes, to do it')],
    'yes',
  ),
  shows('queue', 'Show who is next and which messages are held'),
  shows(
    'why',
    'Show what happened to a message, step by step',
    [{ name: 'message', kind: 'message', required: true, summary: "the message's id" }],
    '1234567890',
  ),
  shows('whoami', 'Show your id and what you may do here'),
  shows(
    'help',
    'Show all commands, or one in detail',
    [optional('command', 'command', 'a command', REST)],
    'floor skip',
  ),
] satisfies readonly CommandRow[];

/** A command's name without its slash: "floor skip", "stop". */
export type CommandPath = (typeof COMMANDS)[number]['path'];

/** The possible first words of a command line: floor, agent, stop, … */
export const COMMAND_WORDS: readonly string[] = [...new Set(COMMANDS.map((row) => row.path.split(' ')[0] ?? ''))];
