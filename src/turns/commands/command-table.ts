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
  summary: 'whose run; that of the holder if left out; "dev+" is what dev does beside the floor',
} as const;
const FILES = {
  name: 'files',
  kind: 'words',
  required: false,
  summary: 'the id that stands with the question',
} as const;
const QUESTION = {
  name: 'question',
  kind: 'question',
  required: false,
  summary: 'the number that stands with the question',
} as const;

/** A command that shows something, and takes no arguments. */
const looked = <Path extends string>(path: Path, summary: string) =>
  ({ path, summary, arguments: [], needs: 'read', example: `/${path}` }) as const;

/**
 * Every operator command, once. Slash commands, the console's buttons, `conch ctl` and `/help` are all made from it.
 */
export const COMMANDS = [
  looked('floor status', 'Show who has the floor, for how long, and who is next'),
  {
    path: 'floor start',
    summary: 'Let the agents begin without a message',
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
    summary: 'End the turn under way and go on with the next agent',
    arguments: [{ ...AGENT, required: false, summary: 'whose turn; the holder if left out' }],
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
    summary: 'Grant no new turns until the floor is resumed',
    arguments: [],
    needs: 'operate',
    example: '/floor pause',
  },
  {
    path: 'floor resume',
    summary: 'Go on after a pause or a limit',
    arguments: [],
    needs: 'operate',
    example: '/floor resume',
  },
  {
    path: 'floor order',
    summary: 'Show or change who is next when the floor is free',
    arguments: [
      { name: 'policy', kind: 'order', required: false, summary: 'how the next agent is found' },
      { name: 'agents', kind: 'agent', required: false, rest: true, summary: 'the queue from now on, first one first' },
    ],
    needs: 'operate',
    bare: 'read',
    example: '/floor order round-robin dev qa pm',
  },
  {
    path: 'floor mode',
    summary: 'Show or change what a message does to a turn under way',
    arguments: [{ name: 'mode', kind: 'mode', required: false, summary: 'what happens to the message' }],
    needs: 'operate',
    bare: 'read',
    example: '/floor mode queue',
  },
  {
    path: 'floor add',
    summary: "Put an agent at the end of this channel's queue",
    arguments: [AGENT],
    needs: 'operate',
    example: '/floor add qa',
  },
  {
    path: 'floor remove',
    summary: 'Take an agent out of this channel; its turn ends',
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
    summary: 'Let a disabled agent take part again, in all its channels',
    arguments: [AGENT],
    needs: 'operate',
    example: '/agent enable dev',
  },
  {
    path: 'agent disable',
    summary: 'Switch an agent off, in all its channels; its turns end',
    arguments: [AGENT],
    needs: 'operate',
    example: '/agent disable dev',
  },
  {
    path: 'agent restart',
    summary: 'Close an agent and start it afresh',
    arguments: [AGENT],
    needs: 'operate',
    example: '/agent restart dev',
  },
  {
    path: 'agent trust',
    summary: 'Start an agent beside the files in its folder; show these if no id is given',
    arguments: [AGENT, FILES],
    needs: 'operate',
    example: '/agent trust dev 3f9a2c1b0e77d410',
  },
  {
    path: 'agent distrust',
    summary: 'Leave an agent stopped beside the files in its folder, or stop it',
    arguments: [AGENT, FILES],
    needs: 'operate',
    example: '/agent distrust dev',
  },
  {
    path: 'stop',
    summary: 'Stop at once: end the turn, keep the messages, rest until somebody writes',
    arguments: [],
    needs: 'operate',
    example: '/stop',
  },
  {
    path: 'allow',
    summary: 'Say yes to what the holder asks, once or for always; show it if no number is given',
    arguments: [
      QUESTION,
      { name: 'scope', kind: 'scope', required: false, summary: 'once, or always by the rule that stands with it' },
      { name: 'rule', kind: 'count', required: false, summary: 'which of these rules (the first, the narrowest)' },
    ],
    needs: 'operate',
    bare: 'read',
    example: '/allow 8',
  },
  {
    path: 'reject',
    summary: 'Say no to what the holder asks; show it if no number is given',
    arguments: [
      QUESTION,
      { name: 'why', kind: 'words', required: false, rest: true, summary: 'why: on record; models alone read it' },
    ],
    needs: 'operate',
    bare: 'read',
    example: '/reject 8',
  },
  {
    path: 'answer',
    summary: 'Answer in words what a server of tools asks; show it if no number is given',
    arguments: [
      QUESTION,
      { name: 'words', kind: 'words', required: false, rest: true, summary: 'the answer, as the question says' },
    ],
    needs: 'operate',
    bare: 'read',
    example: '/answer 8 name=Ann',
  },
  {
    path: 'run start',
    summary: 'Have an agent work beside the floor; it reports here when it has ended',
    arguments: [AGENT, { name: 'what', kind: 'words', required: true, rest: true, summary: 'what it is to do' }],
    options: [
      { name: 'model', summary: 'which model does it, by the name that its provider or agent gives it' },
      { name: 'steps', summary: 'how many steps it may take before it asks to go on', most: 200 },
      { name: 'tools', summary: 'the only tools that it may use: rules as in "tools", with commas between them' },
    ],
    needs: 'operate',
    example: '/run start dev look for dead links',
  },
  {
    path: 'run status',
    summary: 'Show what an agent works at: its step, its open tool calls, what it waits for',
    arguments: [{ ...RUNNING, summary: 'whose run; all of this channel if left out' }],
    needs: 'read',
    example: '/run status dev',
  },
  {
    path: 'run log',
    summary: 'Show the last tool calls, who allowed them and what came of them',
    arguments: [
      { ...RUNNING, summary: 'whose calls; those of the holder, or of whoever had the floor last, if left out' },
      { name: 'count', kind: 'count', required: false, summary: 'how many calls (10 if left out)' },
    ],
    needs: 'read',
    example: '/run log dev 5',
  },
  {
    path: 'run approvals',
    summary: 'Show what is asked now, and every yes that is remembered',
    arguments: [{ ...RUNNING, summary: 'of which agent; all of this channel if left out' }],
    needs: 'read',
    example: '/run approvals dev',
  },
  {
    path: 'run revoke',
    summary: 'Take back a yes that is remembered: the agent asks again',
    arguments: [AGENT, { name: 'rule', kind: 'words', required: true, summary: 'its number in /run approvals' }],
    needs: 'operate',
    example: '/run revoke dev 1',
  },
  {
    path: 'run pause',
    summary: 'Let a run stand still before its next tool call',
    arguments: [RUNNING],
    needs: 'operate',
    example: '/run pause dev',
  },
  {
    path: 'run resume',
    summary: 'Let a run go on that stands still',
    arguments: [RUNNING],
    needs: 'operate',
    example: '/run resume dev',
  },
  {
    path: 'run continue',
    summary: 'Let a run go on at its limit, with as many steps again',
    arguments: [{ name: 'steps', kind: 'count', required: false, most: 200, summary: 'how many steps more' }, RUNNING],
    needs: 'operate',
    example: '/run continue 20',
  },
  {
    path: 'run complete',
    summary: 'End a run with what is there; its turn ends with it',
    arguments: [RUNNING],
    needs: 'operate',
    example: '/run complete dev',
  },
  {
    path: 'run abort',
    summary: 'End a run; its turn ends with it',
    arguments: [RUNNING, { name: 'why', kind: 'words', required: false, rest: true, summary: 'why, for the record' }],
    needs: 'operate',
    example: '/run abort dev',
  },
  {
    path: 'run retry',
    summary: 'Try a failed run again, with words for its prompt if you like',
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
    summary: 'Show what became of a message, step by step',
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
