/** What an argument must be; platforms choose their own input for each kind. */
type ArgumentKind =
  | 'agent'
  | 'mode'
  | 'order'
  | 'seconds'
  | 'count'
  | 'message'
  | 'command'
  | 'question'
  | 'scope'
  | 'words';

/** One argument of a command. A command has at most one of each kind, `rest` arguments apart. */
export type Argument = {
  readonly name: string;
  readonly kind: ArgumentKind;
  readonly required: boolean;
  /** Takes all the words that are left; only the last argument may. */
  readonly rest?: boolean;
  /** The largest count that is taken, if that is not `MAX_COUNT`. */
  readonly most?: number;
  readonly summary: string;
};

/** What may be said of a command by name, as in "--steps 5"; it stands before the words that are taken as they are. */
export type CommandOption = {
  readonly name: 'model' | 'steps' | 'tools';
  readonly summary: string;
  /** The largest number that is taken; absent: it takes words. */
  readonly most?: number;
};

/** The largest count that commands take. */
export const MAX_COUNT = 50;

/** One operator command as every platform offers it. */
export type CommandRow = {
  /** One word, or a group and a word. */
  readonly path: string;
  readonly summary: string;
  readonly arguments: readonly Argument[];
  readonly options?: readonly CommandOption[];
  /** Reading is open to all; operating needs the operator role. */
  readonly needs: 'read' | 'operate';
  /** What the command needs when it is given without arguments, if that is less. */
  readonly bare?: 'read';
  /** A line that works as it stands. */
  readonly example: string;
};

const AGENT = { name: 'agent', kind: 'agent', required: true, summary: 'an agent, by id or name' } as const;
const RUNNING = {
  ...AGENT,
  required: false,
  summary: 'the agent; the holder if left out; "dev+" is the background run of dev',
} as const;
const FILES = {
  name: 'files',
  kind: 'words',
  required: false,
  summary: 'the id shown with the question',
} as const;
const QUESTION = {
  name: 'question',
  kind: 'question',
  required: false,
  summary: 'the number of the request',
} as const;

/** A command that shows something, and takes no arguments. */
const looked = <Path extends string>(path: Path, summary: string) =>
  ({ path, summary, arguments: [], needs: 'read', example: `/${path}` }) as const;

/**
 * Every operator command, once. Slash commands, the console's buttons, `conch ctl` and `/help` are all made from it.
 */
export const COMMANDS = [
  looked('floor status', 'Show who holds the floor, for how long, and who is next'),
  {
    path: 'floor start',
    summary: 'Start an exchange without a message',
    arguments: [],
    needs: 'operate',
    example: '/floor start',
  },
  {
    path: 'floor grant',
    summary: 'Give an agent the next turn',
    arguments: [AGENT],
    needs: 'operate',
    example: '/floor grant dev',
  },
  {
    path: 'floor skip',
    summary: 'End the current turn; the next agent gets the floor',
    arguments: [{ ...AGENT, required: false, summary: 'the agent; the holder if left out' }],
    needs: 'operate',
    example: '/floor skip',
  },
  {
    path: 'floor extend',
    summary: 'Give the holder more time',
    arguments: [{ name: 'seconds', kind: 'seconds', required: false, summary: 'how long (60 if left out)' }],
    needs: 'operate',
    example: '/floor extend 120',
  },
  {
    path: 'floor pause',
    summary: 'Grant no new turns until /floor resume',
    arguments: [],
    needs: 'operate',
    example: '/floor pause',
  },
  {
    path: 'floor resume',
    summary: 'Continue after a pause or a limit',
    arguments: [],
    needs: 'operate',
    example: '/floor resume',
  },
  {
    path: 'floor order',
    summary: 'Show or change the order in which agents get the floor',
    arguments: [
      { name: 'policy', kind: 'order', required: false, summary: 'how the next agent is chosen' },
      { name: 'agents', kind: 'agent', required: false, rest: true, summary: 'the new queue, in order' },
    ],
    needs: 'operate',
    bare: 'read',
    example: '/floor order round-robin dev qa pm',
  },
  {
    path: 'floor mode',
    summary: 'Show or change what a message does to the current turn',
    arguments: [{ name: 'mode', kind: 'mode', required: false, summary: 'what happens to a message mid-turn' }],
    needs: 'operate',
    bare: 'read',
    example: '/floor mode queue',
  },
  {
    path: 'floor add',
    summary: "Add an agent at the end of this channel's queue",
    arguments: [AGENT],
    needs: 'operate',
    example: '/floor add qa',
  },
  {
    path: 'floor remove',
    summary: 'Remove an agent from this channel; its turn ends',
    arguments: [AGENT],
    needs: 'operate',
    example: '/floor remove qa',
  },
  {
    path: 'floor log',
    summary: 'Show the last turns and how they ended',
    arguments: [{ name: 'count', kind: 'count', required: false, summary: 'how many turns (10 if left out)' }],
    needs: 'read',
    example: '/floor log 5',
  },
  looked('agent list', 'Show every agent, its state and its channels'),
  {
    path: 'agent status',
    summary: 'Show one agent in detail',
    arguments: [AGENT],
    needs: 'read',
    example: '/agent status dev',
  },
  {
    path: 'agent enable',
    summary: 'Enable an agent in all its channels',
    arguments: [AGENT],
    needs: 'operate',
    example: '/agent enable dev',
  },
  {
    path: 'agent disable',
    summary: 'Disable an agent in all its channels; its turns end',
    arguments: [AGENT],
    needs: 'operate',
    example: '/agent disable dev',
  },
  {
    path: 'agent restart',
    summary: 'Stop an agent and start it again',
    arguments: [AGENT],
    needs: 'operate',
    example: '/agent restart dev',
  },
  {
    path: 'agent trust',
    summary: 'Trust the files in an agent’s folder and start it; without an id, show the files',
    arguments: [AGENT, FILES],
    needs: 'operate',
    example: '/agent trust dev 3f9a2c1b0e77d410',
  },
  {
    path: 'agent distrust',
    summary: 'Do not trust the files in an agent’s folder; stops the agent',
    arguments: [AGENT, FILES],
    needs: 'operate',
    example: '/agent distrust dev',
  },
  {
    path: 'stop',
    summary: 'End every turn now; messages stay; the floor rests until somebody writes',
    arguments: [],
    needs: 'operate',
    example: '/stop',
  },
  {
    path: 'allow',
    summary: 'Allow a request, once or always; without a number, show the open requests',
    arguments: [
      QUESTION,
      { name: 'scope', kind: 'scope', required: false, summary: 'once, or always by the rule of the request' },
      { name: 'rule', kind: 'count', required: false, summary: 'which of its rules (1 if left out)' },
    ],
    needs: 'operate',
    bare: 'read',
    example: '/allow 8',
  },
  {
    path: 'reject',
    summary: 'Deny a request; without a number, show the open requests',
    arguments: [
      QUESTION,
      { name: 'why', kind: 'words', required: false, rest: true, summary: 'the reason: recorded, and read by models' },
    ],
    needs: 'operate',
    bare: 'read',
    example: '/reject 8',
  },
  {
    path: 'answer',
    summary: 'Answer a form or link of a tool server; without a number, show the open requests',
    arguments: [
      QUESTION,
      { name: 'words', kind: 'words', required: false, rest: true, summary: 'the answer, as the form says' },
    ],
    needs: 'operate',
    bare: 'read',
    example: '/answer 8 name=Ann',
  },
  {
    path: 'run start',
    summary: 'Start a background run; it reports here at the end',
    arguments: [AGENT, { name: 'what', kind: 'words', required: true, rest: true, summary: 'the task' }],
    options: [
      { name: 'model', summary: 'the model, by the name that its provider or agent uses' },
      { name: 'steps', summary: 'the step limit', most: 200 },
      { name: 'tools', summary: 'the only tools it may use: rules, separated by commas' },
    ],
    needs: 'operate',
    example: '/run start dev look for dead links',
  },
  {
    path: 'run status',
    summary: 'Show an agent’s runs: steps, open tool calls, open requests',
    arguments: [{ ...RUNNING, summary: 'the agent; all of this channel if left out' }],
    needs: 'read',
    example: '/run status dev',
  },
  {
    path: 'run log',
    summary: 'Show the last tool calls, who allowed them, and their outcomes',
    arguments: [
      { ...RUNNING, summary: 'the agent; the holder, or the last one, if left out' },
      { name: 'count', kind: 'count', required: false, summary: 'how many calls (10 if left out)' },
    ],
    needs: 'read',
    example: '/run log dev 5',
  },
  {
    path: 'run approvals',
    summary: 'Show open requests and always-allow rules',
    arguments: [{ ...RUNNING, summary: 'the agent; all of this channel if left out' }],
    needs: 'read',
    example: '/run approvals dev',
  },
  {
    path: 'run revoke',
    summary: 'Revoke an always-allow rule',
    arguments: [AGENT, { name: 'rule', kind: 'words', required: true, summary: 'its number in /run approvals' }],
    needs: 'operate',
    example: '/run revoke dev 1',
  },
  {
    path: 'run pause',
    summary: 'Pause a run before its next tool call',
    arguments: [RUNNING],
    needs: 'operate',
    example: '/run pause dev',
  },
  {
    path: 'run resume',
    summary: 'Continue a paused run',
    arguments: [RUNNING],
    needs: 'operate',
    example: '/run resume dev',
  },
  {
    path: 'run continue',
    summary: 'Continue a run at its limit, with more steps (as many again if left out)',
    arguments: [{ name: 'steps', kind: 'count', required: false, most: 200, summary: 'how many more steps' }, RUNNING],
    needs: 'operate',
    example: '/run continue 20',
  },
  {
    path: 'run complete',
    summary: 'End a run with the result so far; its turn ends, too',
    arguments: [RUNNING],
    needs: 'operate',
    example: '/run complete dev',
  },
  {
    path: 'run abort',
    summary: 'Abort a run; its turn ends, too',
    arguments: [
      RUNNING,
      { name: 'why', kind: 'words', required: false, rest: true, summary: 'the reason, for the record' },
    ],
    needs: 'operate',
    example: '/run abort dev',
  },
  {
    path: 'run retry',
    summary: 'Retry a failed run, with optional words for its prompt',
    arguments: [
      AGENT,
      { name: 'words', kind: 'words', required: false, rest: true, summary: 'what to do differently' },
    ],
    needs: 'operate',
    example: '/run retry dev',
  },
  looked('queue', 'Show who is next and which messages are held'),
  {
    path: 'why',
    summary: 'Show what happened to a message, step by step',
    arguments: [{ name: 'message', kind: 'message', required: true, summary: "the message's id" }],
    needs: 'read',
    example: '/why 1234567890',
  },
  looked('whoami', 'Show your id and what you may do here'),
  {
    path: 'help',
    summary: 'Show all commands, or one in detail',
    arguments: [{ name: 'command', kind: 'command', required: false, rest: true, summary: 'a command' }],
    needs: 'read',
    example: '/help floor skip',
  },
] as const satisfies readonly CommandRow[];

/** A command's name without its slash: "floor skip", "stop". */
export type CommandPath = (typeof COMMANDS)[number]['path'];

/** The words with which a command line begins: floor, agent, stop, … */
export const COMMAND_WORDS: readonly string[] = [...new Set(COMMANDS.map((row) => row.path.split(' ')[0] ?? ''))];
