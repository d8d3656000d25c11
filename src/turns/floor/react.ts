import type { Fact, FactOf, PromptReason } from './fact.ts';
import type { Announcement } from './announcement.ts';
import type { Floor } from './floor.ts';
import { findTurn } from './seats.ts';
import type { AgentId, DecidedRequest, Feedback, MessageId } from './settings.ts';
import { defined } from '../../lib/defined.ts';

/** The effects of a fact. `floor`: the floor after the whole decision, not the floor after this fact. */
export function react(fact: Fact, floor: Floor): readonly Effect[] {
  return reactTo(fact.type, fact, floor);
}

const REACTIONS: { readonly [T in Fact['type']]?: (fact: FactOf<T>, floor: Floor) => readonly Effect[] } = {
  turnGranted: (fact, floor) => {
    const { brief, fresh, apart } = findTurn(floor, fact.agent) ?? {};
    return [prompt(fact, 'grant', { ...fact, brief, fresh, ...withoutPrimary(floor, apart) })];
  },
  turnResumed: (fact, floor) => [
    { type: 'cancel', agent: fact.agent, epoch: fact.epoch - 1 },
    prompt(fact, 'resume', resumedTurn(floor, fact.agent)),
  ],
  turnContinued: (fact) => [prompt(fact, 'again')],
  turnWaited: ({ agent, epoch, wait }, { settings }) =>
    wait.reason === 'human' ? interruption(agent, epoch, settings.interruptGraceMs) : [],
  turnStopped: ({ agent, epoch, forced }) => (forced ? [{ type: 'interrupt', agent, epoch, graceMs: 0 }] : []),
  turnEnded: ended,
  disconnected: ({ restart }, floor) => (restart ? cancelled(floor) : []),
  reported: ({ agent, line, text }) => [{ type: 'post', agent, epoch: 0, line, text }],
  said: ({ agent, epoch, line, text }) => [{ type: 'post', agent, epoch, line, text }],
  messageRouted: routed,
  messageAmended: amended,
  facilitatorAsked: ({ facilitator, ask, candidates }) => [{ type: 'ask', agent: facilitator, ask, candidates }],
  announced: (fact) => (fact.shown ? announced(fact) : []),
};

const NOTHING: readonly Effect[] = [];

function reactTo<T extends Fact['type']>(type: T, fact: FactOf<T>, floor: Floor): readonly Effect[] {
  return REACTIONS[type]?.(fact, floor) ?? NOTHING;
}

function resumedTurn(floor: Floor, agent: AgentId): Parameters<typeof prompt>[2] {
  const turn = findTurn(floor, agent);
  return turn === null ? null : { ...turn, ...withoutPrimary(floor, turn.apart) };
}

function withoutPrimary({ task }: Floor, apart: true | undefined): { readonly without?: LeftOut } {
  return apart === undefined || task === undefined ? {} : { without: { author: task.primary, after: task.since ?? 0 } };
}

/** Lines of a conversation that a prompt leaves out: the lines of `author` with a number above `after`. */
type LeftOut = { readonly author: AgentId; readonly after: number };

function amended({ id, change, holder, epoch }: FactOf<'messageAmended'>): readonly Effect[] {
  return holder === null ? [] : [{ type: 'inject', agent: holder, epoch, message: id, observed: true, change }];
}

function cancelled({ turn }: Floor): readonly Effect[] {
  return turn?.status === 'suspended' ? [{ type: 'cancel', agent: turn.agent, epoch: turn.epoch }] : [];
}

function announced({ announcement, key, repeat }: FactOf<'announced'>): readonly Effect[] {
  const announce: Effect = { type: 'announce', announcement, key, repeat };
  if (announcement.kind === 'trust')
    return [announce, { type: 'offerTrust', agent: announcement.agent, id: announcement.id }];
  if (announcement.kind !== 'approval') return [announce];
  const { question, key: requestKey } = announcement;
  return [announce, { type: 'offer', question, ...defined({ key: requestKey }) }];
}

function prompt(
  fact: FactOf<'turnGranted' | 'turnResumed' | 'turnContinued'>,
  reason: PromptReason,
  turn: {
    readonly feedback?: Feedback | undefined;
    readonly brief?: string | undefined;
    readonly fresh?: true | undefined;
    readonly without?: LeftOut | undefined;
  } | null = null,
): Effect {
  const { agent, epoch, afterLine, uptoLine, messages } = fact;
  const { open = [], asked, decided } = fact.type === 'turnResumed' ? fact : {};
  const askedBy = fact.type === 'turnGranted' ? fact.askedBy : undefined;
  const fields = defined({ feedback: turn?.feedback, brief: turn?.brief, fresh: turn?.fresh, without: turn?.without });
  const of = { ...defined({ askedBy, asked, decided }), ...fields };
  return { type: 'prompt', agent, epoch, reason, afterLine, uptoLine, messages, open, ...of };
}

function interruption(agent: AgentId, epoch: number, graceMs: number, hung = false): readonly Effect[] {
  return [
    { type: 'cancel', agent, epoch },
    { type: 'interrupt', agent, epoch, graceMs, ...(hung ? { hung } : {}) },
  ];
}

function ended(fact: FactOf<'turnEnded'>, floor: Floor): readonly Effect[] {
  const done: Effect[] = [];
  if (floor.settings.receipts) {
    const { epoch } = fact;
    for (const message of fact.answered) done.push({ type: 'receipt', message, receipt: 'done', epoch });
    for (const message of fact.cut ?? []) done.push({ type: 'receipt', message, receipt: 'cut', epoch });
  }
  const { agent, epoch, outcome, by, hung } = fact;
  // A turn that its agent has ended runs no generation, so there is none to interrupt.
  const isEnded = (outcome === 'completed' || outcome === 'passed') && by === undefined;
  if (isEnded) return [{ type: 'cancel', agent, epoch }, ...done];
  return [...interruption(agent, epoch, floor.settings.interruptGraceMs, hung), ...done];
}

function routed(fact: FactOf<'messageRouted'>, floor: Floor): readonly Effect[] {
  const kind = receiptOf(fact);
  const shown: readonly Effect[] =
    kind !== null && floor.settings.receipts ? [{ type: 'receipt', message: fact.id, receipt: kind }] : NOTHING;
  const { fate } = fact;
  if (fate.state === 'held' && fate.until === 'exchange') return [...looksOn(fact, floor), ...shown];
  if (fate.state !== 'delivered' || fate.via !== 'inject') return shown;
  return [...fate.to.map((agent) => inject(fact, agent, false)), ...shown];
}

function looksOn(fact: FactOf<'messageRouted'>, floor: Floor): readonly Effect[] {
  return floor.seats
    .filter(({ status }) => status !== 'OFFLINE' && status !== 'IDLE')
    .map(({ agent }) =>
      agent === fact.holder?.agent ? inject(fact, agent, true) : { type: 'observe', agent, message: fact.id },
    );
}

function inject(fact: FactOf<'messageRouted'>, agent: AgentId, observed: boolean): Effect {
  return { type: 'inject', agent, epoch: fact.holder?.epoch ?? 0, message: fact.id, observed };
}

function receiptOf(fact: FactOf<'messageRouted'>): Extract<Effect, { type: 'receipt' }>['receipt'] | null {
  const { fate } = fact;
  switch (fate.state) {
    case 'held':
      return fate.until === 'exchange' ? 'observed' : 'held';
    case 'unrouted':
      return 'unrouted';
    case 'ignored':
      return null;
    case 'delivered':
      return fate.via === 'prompt' && fact.opens !== true ? null : RECEIPT_OF[fate.via];
  }
}

/**
 * The receipt for each way of delivery. `observe`: none, because the message got its receipt while it was held.
 * `prompt`: only for a message that was routed to a free floor.
 */
const RECEIPT_OF = { prompt: 'held', inject: 'injected', interrupt: 'preempted', observe: null } as const;

/** The receipts: reactions that tell a person the fate of a message. */
export const RECEIPTS = {
  injected: '↪️',
  held: '👀',
  preempted: '⚡',
  observed: '👁️',
  done: '✅',
  cut: '⏹️',
  unrouted: '⚠️',
} as const;
export type Receipt = keyof typeof RECEIPTS;

/** Something to do because of a fact, such as a prompt or a post. */
export type Effect =
  /** Asks the holder to answer `messages`. Lines after `afterLine`, up to `uptoLine`, count as new for the agent. */
  | {
      readonly type: 'prompt';
      readonly agent: AgentId;
      readonly epoch: number;
      readonly reason: PromptReason;
      readonly afterLine: number;
      readonly uptoLine: number;
      readonly messages: readonly MessageId[];
      /** The part of `messages` that the agent already got in this turn, and that no complete generation answered. */
      readonly open: readonly MessageId[];
      /** The agent that asked this turn's agent and waits for its text. */
      readonly askedBy?: AgentId;
      /** The agent whose answer this turn waited for. `answered`: that agent said something, and its turn is over. */
      readonly asked?: { readonly agent: AgentId; readonly answered: boolean };
      readonly decided?: DecidedRequest;
      readonly feedback?: Feedback;
      readonly brief?: string;
      readonly fresh?: true;
      readonly without?: LeftOut;
    }
  | {
      readonly type: 'inject';
      readonly agent: AgentId;
      readonly epoch: number;
      readonly message: MessageId;
      readonly observed: boolean;
      readonly change?: 'edited' | 'deleted';
    }
  /**
   * Shows a message to a queued or waiting agent, or to a holder whose turn is not active. The agent need not answer.
   */
  | { readonly type: 'observe'; readonly agent: AgentId; readonly message: MessageId }
  /**
   * Stops the generation of this epoch or an earlier one. `graceMs`: milliseconds to stop by itself; 0 stops it by
   * force. `hung`: the turn timed out; ends the session, with an error, if the generation still runs.
   */
  | {
      readonly type: 'interrupt';
      readonly agent: AgentId;
      readonly epoch: number;
      readonly graceMs: number;
      readonly hung?: boolean;
    }
  /**
   * Follows the post of a request in the same lane. When this effect is carried out, the channel shows the whole
   * request.
   */
  | { readonly type: 'offer'; readonly question: number; readonly key?: string }
  /**
   * Follows the post of a question about an agent's files in the same lane. When this effect is carried out, the
   * channel shows the whole question.
   */
  | { readonly type: 'offerTrust'; readonly agent: AgentId; readonly id: string }
  | { readonly type: 'ask'; readonly agent: AgentId; readonly ask: number; readonly candidates: readonly AgentId[] }
  /** Cancels pending prompts and injections of this agent with this epoch or an older one. */
  | { readonly type: 'cancel'; readonly agent: AgentId; readonly epoch: number }
  | {
      readonly type: 'post';
      readonly agent: AgentId;
      readonly epoch: number;
      readonly line: number;
      readonly text: string;
    }
  /**
   * Posts an announcement. With `repeat` of 2 or more, edits the earlier one with this `key`, unless this is a long
   * request.
   */
  | { readonly type: 'announce'; readonly announcement: Announcement; readonly key: string; readonly repeat: number }
  /** Shows a receipt at a message. `epoch`: shows it only after all texts of the turn with this epoch are posted. */
  | { readonly type: 'receipt'; readonly message: MessageId; readonly receipt: Receipt; readonly epoch?: number };
