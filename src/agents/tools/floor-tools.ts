import { z } from 'zod';
import { proposedTicketSchema } from '../../turns/proposed-ticket.ts';
import type { AgentId } from '../../turns/floor/settings.ts';
import {
  MOST_FINDINGS,
  REVISE,
  REVIEW_VERDICTS,
  answerLine,
  answeredFindingSchema,
  reportLine,
  reportedFindingSchema,
} from '../../turns/text/review-signals.ts';
import type { AnsweredFinding, ReportedFinding } from '../../turns/text/review-signals.ts';
import type { Ending, Report, TurnPrompt } from '../backends/backend.ts';

type Signalled = {
  readonly reason?: string | undefined;
  readonly answers?: readonly AnsweredFinding[] | undefined;
  readonly findings?: readonly ReportedFinding[] | undefined;
  readonly verdict?: (typeof REVIEW_VERDICTS)[number];
};

const text = z.string().min(1).max(20_000);
const agent = z.string().min(1).max(100).describe('the id of an agent that sits at this floor');

/** The floor tools for models. `done`, `review` and `ticket_new` need a task. */
export const FLOOR_TOOLS = {
  say: {
    description:
      'Post a message to the channel now and keep the floor. What you write as your plain answer is posted anyway: do not say it twice.',
    input: z.object({ text: text.describe('the message, in Markdown') }),
  },
  turn_complete: {
    description: 'End your turn after this reply. Optional: the end of your plain answer ends your turn, too.',
    input: z.object({ hand_to: agent.optional() }),
  },
  pass: { description: 'End your turn without saying anything, because you have nothing to add.', input: z.object({}) },
  wait_for: {
    description:
      'Ask people a question and wait for the answer, keeping your turn. It returns at once: end your reply then; the answer is your next prompt.',
    input: z.object({ question: text.describe('the question; it is posted to the channel') }),
  },
  ask: {
    description:
      'Ask another agent a question and wait for its answer, keeping your turn. It returns at once: end your reply then; that agent speaks next, and your turn goes on with its answer.',
    input: z.object({ agent, question: text.describe('the question; it is posted to the channel') }),
  },
  hand_to: {
    description: 'End your turn after this reply and give the floor to another agent.',
    input: z.object({ agent }),
  },
  done: {
    description:
      'In a review or on a ticket: signal that your work is finished, answer the findings of a reviewer, and end your turn after this reply.',
    input: z.object({
      reason: text.optional().describe('what you did, in a few sentences'),
      answers: z.array(answeredFindingSchema).max(MOST_FINDINGS).optional(),
    }),
  },
  ticket_new: {
    description: 'On a ticket: propose another ticket for other work that you find. People decide about it.',
    input: proposedTicketSchema,
  },
  review: {
    description:
      'In a review: give your verdict about the work with your findings, and end your turn after this reply. "revise" means that something must be changed first.',
    input: z.object({
      verdict: z.enum(REVIEW_VERDICTS),
      reason: text.optional().describe('why, in a few sentences'),
      findings: z.array(reportedFindingSchema).max(MOST_FINDINGS).optional(),
    }),
  },
} as const satisfies Record<string, { readonly description: string; readonly input: z.ZodObject }>;

type FloorToolName = keyof typeof FLOOR_TOOLS;

/** An agent's part in the open task, if any. */
export type TaskPart = Pick<NonNullable<TurnPrompt['task']>, 'role' | 'isTicket'> | undefined;

/**
 * The floor tools of a turn. The agents of an open task have no `pass`. In its turn, the primary agent has `done`, and
 * `ticket_new` for a ticket. In its turn, the reviewer has `review`.
 */
export function offeredFloorTools(task: TaskPart): readonly FloorToolName[] {
  return Object.keys(FLOOR_TOOLS)
    .filter(isFloorTool)
    .filter((name) => whyNot(name, task) === null);
}

function whyNot(name: FloorToolName, task: TaskPart): string | null {
  const role = task?.role ?? 'other';
  if (name === 'pass' && role !== 'other')
    return 'Not done: a review or a ticket is open, and silence is no answer. Write an answer, or end your reply.';
  if (name === 'done' && role !== 'primary')
    return 'Not done: this turn is no turn of work in a review or on a ticket.';
  if (name === 'ticket_new' && (role !== 'primary' || task?.isTicket !== true))
    return 'Not done: this turn is no turn of work on a ticket.';
  return name === 'review' && role !== 'reviewer' ? 'Not done: this turn is no turn of a reviewer.' : null;
}

/** Whether a tool's name is one of the floor tools. */
export function isFloorTool(name: string): name is FloorToolName {
  return Object.hasOwn(FLOOR_TOOLS, name);
}

/**
 * The floor tools of one generation (an agent's answer to one prompt). Passes texts and proposed tickets to the
 * generation's `Report`, and decides how the turn ends. Drops text after `pass`, `wait_for`, `ask`, `done` or `review`.
 * Posts a text once that the agent writes and then also gives to `say`.
 */
export class FloorTools {
  readonly #report: Report;
  readonly #self: AgentId;
  readonly #turn: Pick<TurnPrompt, 'roster' | 'task'>;
  #written = '';
  #posted = false;
  #apart = false;
  #end: Ending | null = null;
  #calls = 0;
  /** True after `done` or `review`: the signal that they post is the last line of the turn. */
  #isSignalled = false;

  constructor(report: Report, self: AgentId, turn: Pick<TurnPrompt, 'roster' | 'task'>) {
    this.#report = report;
    this.#self = self;
    this.#turn = turn;
  }

  /** The number of calls so far of tools that Conch serves to the agent: floor tools and others. */
  get calls(): number {
    return this.#calls;
  }

  /** The names of the floor tools that this turn offers. */
  get offered(): readonly FloorToolName[] {
    return offeredFloorTools(this.#turn.task);
  }

  /** Adds one to `calls`, for a call of a tool that Conch serves besides the floor tools. */
  counted(): void {
    this.#calls += 1;
  }

  /** True once a floor tool has ended or paused the turn. Later calls of floor tools do nothing. */
  get over(): boolean {
    return this.#end !== null;
  }

  /**
   * How the turn ends if the generation ends now. Without a floor tool, text completes the turn, and silence is a pass.
   * A `pass` after a posted text completes the turn.
   */
  get ending(): Ending {
    const spoken = this.#posted || this.#written.trim() !== '';
    if (this.#end === null) return spoken ? { how: 'completed' } : { how: 'passed' };
    return this.#end.how === 'passed' && this.#posted ? { how: 'completed' } : this.#end;
  }

  /** Called with each piece of the agent's text. */
  text(chunk: string): void {
    if (chunk === '' || this.#isSignalled || this.#end?.how === 'passed' || this.#end?.how === 'waiting') return;
    if (this.#apart) this.#flush();
    this.#written += chunk;
    this.#report.text(chunk);
  }

  /** Starts a new message with the text that follows. */
  apart(): void {
    this.#apart = true;
  }

  /**
   * Posts the text so far, then `message` as a separate message. Leaves out `message` when the text so far contains its
   * lines.
   */
  say(message: string): void {
    const isRepeated = onLines(this.#written).includes(onLines(message));
    this.#flush();
    if (!isRepeated) this.#post(message);
  }

  #post(message: string): void {
    this.#written = message;
    this.#report.text(message);
    this.#flush();
  }

  /**
   * Carries out a floor tool and returns the answer in words for the model. `ticket_new` can return a promise. Invalid
   * input is answered, never thrown.
   */
  apply(name: Exclude<FloorToolName, 'ticket_new'>, input: unknown): string;
  apply(name: FloorToolName, input: unknown): string | Promise<string>;
  apply(name: FloorToolName, input: unknown): string | Promise<string> {
    this.#calls += 1;
    if (this.#end !== null) return OVER;
    const parsed = FLOOR_TOOLS[name].input.safeParse(input);
    if (!parsed.success) return `Not done: ${z.prettifyError(parsed.error)}`;
    const why = whyNot(name, this.#turn.task);
    if (why !== null) return why;
    return name === 'ticket_new' ? this.#propose(input) : this.#do(name, parsed.data);
  }

  #propose(input: unknown): string | Promise<string> {
    return this.#report.propose?.(proposedTicketSchema.parse(input)) ?? 'Not done: no crew takes tickets here.';
  }

  #do(
    name: Exclude<FloorToolName, 'ticket_new'>,
    input: { text?: string | undefined; question?: string; agent?: string; hand_to?: string | undefined } & Signalled,
  ): string {
    switch (name) {
      case 'say':
        this.say(input.text ?? '');
        return 'Said. You still have the floor.';
      case 'pass':
        this.#end = { how: 'passed' };
        return OVER;
      case 'wait_for':
        this.say(input.question ?? '');
        this.#end = { how: 'waiting', reason: 'answer' };
        return 'You are waiting for the answer: end your reply now, without another word.';
      case 'ask':
        return this.#ask(input.agent ?? '', input.question ?? '');
      case 'done':
        return this.#signal([input.reason, ...(input.answers ?? []).map(answerLine)], 'done');
      case 'review':
        return this.#signal([input.reason, ...(input.findings ?? []).map(reportLine)], input.verdict ?? 'revise');
      case 'turn_complete':
      case 'hand_to':
        return this.#complete(input.agent ?? input.hand_to);
    }
  }

  #signal(lines: readonly (string | undefined)[], signal: 'done' | 'pass' | 'revise' | 'fail'): string {
    const words = { ...this.#turn.task?.signals, revise: REVISE };
    const message = [...lines.filter((line) => line !== undefined), words[signal] ?? signal].join('\n');
    const isWritten = onLines(this.#written).endsWith(onLines(message));
    this.#flush();
    if (!isWritten) this.#post(message);
    this.#isSignalled = true;
    return this.#complete(undefined);
  }

  #complete(named: string | undefined): string {
    if (named === undefined) {
      this.#end = { how: 'completed' };
      return OVER;
    }
    const next = this.#find(named);
    if (!next) return this.#notHere(named);
    this.#end = { how: 'completed', handTo: next.id };
    return OVER;
  }

  #ask(named: string, question: string): string {
    const target = this.#find(named);
    if (!target) return this.#notHere(named);
    if (target.status === 'WAITING')
      return `Not done: ${target.id} waits for you or for others: answer, or go on without it.`;
    if (target.status !== 'QUEUED') return `Not done: ${target.id} is away.`;
    this.say(question.includes(`@${target.id}`) ? question : `@${target.id} ${question}`);
    this.#end = { how: 'waiting', reason: 'answer', of: target.id };
    return `You are waiting for ${target.id}: end your reply now, without another word.`;
  }

  #find(named: string): TurnPrompt['roster'][number] | undefined {
    const wanted = named.trim().replace(/^@/, '').toLowerCase();
    return this.#others().find(({ id, name }) => [id, name].some((word) => word.toLowerCase() === wanted));
  }

  #notHere(named: string): string {
    const ids = this.#others().map(({ id }) => id);
    return `Not done: "${named}" is not here. Agents: ${ids.join(', ')}.`;
  }

  #others(): TurnPrompt['roster'] {
    return this.#turn.roster.filter(({ id }) => id !== this.#self);
  }

  #flush(): void {
    this.#apart = false;
    if (this.#written.trim() === '') return;
    this.#report.flush();
    this.#posted = true;
    this.#written = '';
  }
}

/** Returns the trimmed lines of a message with a line break before and after, to compare whole lines. */
function onLines(message: string): string {
  const lines = message.trim().split('\n');
  return `\n${lines.map((line) => line.trim()).join('\n')}\n`;
}

const OVER = 'Your turn is over: end your reply now.';
