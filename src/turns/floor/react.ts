import type { Effect } from './effect.ts';
import type { Fact } from './fact.ts';
import type { Floor } from './floor.ts';
import type { AgentId, Choice } from './settings.ts';

type Routed = Extract<Fact, { type: 'messageRouted' }>;

/** What the world must learn of a fact. `floor` is the floor after the whole decision: only its settings, its seats and whose turn it is are looked at. */
export function react(fact: Fact, floor: Floor): readonly Effect[] {
  switch (fact.type) {
    case 'turnGranted':
      return [prompt(fact, 'grant')];
    case 'turnResumed':
      return [{ type: 'cancel', agent: fact.agent, epoch: fact.epoch - 1 }, prompt(fact, 'resume')];
    case 'disconnected':
      return fact.restart ? cancelled(floor) : [];
    case 'turnContinued': {
      const { agent, epoch, afterLine, uptoLine, messages } = fact;
      return [{ type: 'prompt', agent, epoch, reason: 'again', afterLine, uptoLine, messages, open: [] }];
    }
    case 'turnWaited':
      return fact.wait.reason === 'human' ? interruption(fact.agent, fact.epoch, floor.settings.interruptGraceMs) : [];
    case 'questionClosed':
      return fact.choice === null ? [] : [decided(fact, fact.choice)];
    case 'turnStopped':
      return fact.forced ? [{ type: 'interrupt', agent: fact.agent, epoch: fact.epoch, graceMs: 0 }] : [];
    case 'turnEnded':
      return ended(fact, floor);
    case 'said':
      return [{ type: 'post', agent: fact.agent, epoch: fact.epoch, line: fact.line, text: fact.text }];
    case 'messageRouted':
      return routed(fact, floor);
    case 'messageAmended':
      return fact.holder === null
        ? []
        : [
            {
              type: 'inject',
              agent: fact.holder,
              epoch: fact.epoch,
              message: fact.id,
              observed: true,
              change: fact.change,
            },
          ];
    case 'choosingStarted':
      return [{ type: 'ask', agent: fact.facilitator, ask: fact.ask, candidates: fact.candidates }];
    case 'announced':
      return fact.shown ? announced(fact) : [];
    default:
      return nothing(fact);
  }
}

/** Facts of which nobody outside needs to hear; a new fact must be put here or above. */
type QuietFact = Extract<
  Fact,
  {
    type:
      | 'configured'
      | 'settingsChanged'
      | 'seatMoved'
      | 'seatMarked'
      | 'seatDropped'
      | 'seatCreated'
      | 'exchangeOpened'
      | 'usageReset'
      | 'exchangeClosed'
      | 'floorPaused'
      | 'agentCalled'
      | 'choosingEnded'
      | 'questionShown'
      | 'waitAnswered'
      | 'turnExtended'
      | 'worked'
      | 'spent'
      | 'injectReported'
      | 'epochRaised'
      | 'caughtUp'
      | 'actRefused';
  }
>;

function nothing(_quiet: QuietFact): readonly Effect[] {
  return [];
}

/** What is owed to a turn that a restart cut is said anew when it goes on. */
function cancelled({ turn }: Floor): readonly Effect[] {
  return turn?.status === 'suspended' ? [{ type: 'cancel', agent: turn.agent, epoch: turn.epoch }] : [];
}

function decided({ agent, epoch, question }: Extract<Fact, { type: 'questionClosed' }>, choice: Choice): Effect {
  return { type: 'decision', agent, epoch, question, choice };
}

function announced({ announcement, key, repeat }: Extract<Fact, { type: 'announced' }>): readonly Effect[] {
  const announce: Effect = { type: 'announce', announcement, key, repeat };
  return announcement.kind === 'approval' ? [announce, { type: 'offer', question: announcement.question }] : [announce];
}

function prompt(fact: Extract<Fact, { type: 'turnGranted' | 'turnResumed' }>, reason: 'grant' | 'resume'): Effect {
  const { agent, epoch, afterLine, uptoLine, messages } = fact;
  const open = fact.type === 'turnResumed' ? fact.open : [];
  return { type: 'prompt', agent, epoch, reason, afterLine, uptoLine, messages, open };
}

function interruption(agent: AgentId, epoch: number, graceMs: number): readonly Effect[] {
  return [
    { type: 'cancel', agent, epoch },
    { type: 'interrupt', agent, epoch, graceMs },
  ];
}

function ended(fact: Extract<Fact, { type: 'turnEnded' }>, floor: Floor): readonly Effect[] {
  const done: Effect[] = floor.settings.receipts
    ? fact.answered.map((message) => ({ type: 'receipt', message, receipt: 'done' }))
    : [];
  switch (fact.outcome) {
    case 'completed':
    case 'passed':
      return [{ type: 'cancel', agent: fact.agent, epoch: fact.epoch }, ...done];
    case 'forfeited':
    case 'lapsed':
    case 'expired':
    case 'revoked':
      return [...interruption(fact.agent, fact.epoch, floor.settings.interruptGraceMs), ...done];
  }
}

function routed(fact: Routed, floor: Floor): readonly Effect[] {
  const receipt = receiptOf(fact);
  const shown: Effect[] =
    receipt !== null && floor.settings.receipts ? [{ type: 'receipt', message: fact.id, receipt }] : [];
  if (fact.fate.state !== 'delivered') return shown;
  const { via, to } = fact.fate;
  if (via === 'inject') return [...to.map((agent) => inject(fact, agent, false)), ...shown];
  if (via !== 'observe') return shown;
  return [
    ...to.map((agent): Effect =>
      agent === fact.holder?.agent ? inject(fact, agent, true) : { type: 'observe', agent, message: fact.id },
    ),
    ...shown,
  ];
}

function inject(fact: Routed, agent: AgentId, observed: boolean): Effect {
  return { type: 'inject', agent, epoch: fact.holder?.epoch ?? 0, message: fact.id, observed };
}

function receiptOf(fact: Routed): Extract<Effect, { type: 'receipt' }>['receipt'] | null {
  const { fate } = fact;
  switch (fate.state) {
    case 'held':
      return 'held';
    case 'unrouted':
      return 'unrouted';
    case 'ignored':
      return null;
    case 'delivered':
      return fate.via === 'prompt' ? null : RECEIPT_OF[fate.via];
  }
}

const RECEIPT_OF = { inject: 'injected', interrupt: 'preempted', observe: 'observed' } as const;
