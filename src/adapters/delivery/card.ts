import type { AgentId, Question } from '../../turns/floor/settings.ts';
import type { Instant } from '../../lib/time.ts';
import { isDiff } from '../../turns/text/words.ts';
import { obstacleWords } from '../../turns/commands/read.ts';
import type { FloorView } from '../../turns/view.ts';

/** One button: what it says, the command line it stands for, and the turn it was drawn for. */
export type CardButton = {
  readonly label: string;
  readonly line: string;
  readonly epoch: number | null;
  readonly style: 'plain' | 'good' | 'danger';
  /** What is shown before anything is done; a platform that cannot show it leaves the button out. */
  readonly opens?: ButtonOpens;
};

/** `rules`: a choice among lines; `reason`: a field whose words go behind the line; `input`: all that is asked, to whoever pressed it. */
export type ButtonOpens =
  | { readonly what: 'rules'; readonly of: readonly { readonly words: string; readonly line: string }[] }
  | { readonly what: 'reason' }
  | { readonly what: 'input' };

/** The floor in one line with buttons, as every platform shows it. */
export type Card = {
  /** "🎤 dev · 1:12 left · next: qa, pm"; without the time when a platform shows its own clock. */
  readonly text: string;
  /** When the turn ends by itself; `null` when nothing runs out. */
  readonly endsAt: Instant | null;
  readonly buttons: readonly CardButton[];
};

/** How many names the card shows of those who are next. */
const NEXT_SHOWN = 5;

/** The card of a floor. `timeLeft` writes the time that is left, in words or in the platform's own clock. */
export function cardOf(
  view: FloorView,
  nameOf: (agent: AgentId) => string,
  timeLeft: (endsAt: Instant) => string,
): Card {
  const { holder, condition } = view;
  const endsAt = timed(view);
  const parts = [
    headline(view, nameOf),
    timeWords(view, timeLeft),
    holder !== null && condition === 'paused' ? '⏸ paused after this turn' : null,
    whyResting(view, nameOf),
    nextWords(view, nameOf),
    heldWords(view),
  ];
  return { text: parts.filter((part) => part !== null).join(' · '), endsAt, buttons: buttonsOf(view) };
}

/** Why nobody has the floor on a resting one, and how it goes on. */
function whyResting({ condition, obstacles }: FloorView, nameOf: (agent: AgentId) => string): string | null {
  const [first] = obstacles;
  if (condition !== 'resting' || first === undefined || first.why === 'catching-up') return null;
  return obstacleWords(first, nameOf);
}

/** While a tool runs, only the hard end of the turn counts: the time that is left would jump with every tool. */
function timed({ holder }: FloorView): Instant | null {
  return holder === null || holder.working ? null : holder.deadlineAt;
}

function timeWords(view: FloorView, timeLeft: (endsAt: Instant) => string): string | null {
  const endsAt = timed(view);
  if (endsAt !== null) return timeLeft(endsAt);
  return view.holder?.working === true ? 'at work' : null;
}

function headline(view: FloorView, nameOf: (agent: AgentId) => string): string {
  const { holder, condition } = view;
  if (holder !== null) {
    const name = nameOf(holder.agent);
    if (holder.status === 'ACTIVE') return `🎤 ${name}`;
    return `✋ ${name} ${WAITING[holder.waitingFor ?? 'answer']}`;
  }
  if (view.obstacles.some(({ why }) => why === 'catching-up')) return '🔄 reading what was missed';
  if (condition === 'paused') return '⏸ paused';
  return condition === 'open' ? '⏳ choosing who is next' : '💤 nobody has the floor';
}

const WAITING = {
  answer: 'waits for an answer',
  human: 'was interrupted',
  approval: 'asks for a yes',
} as const;

function nextWords(view: FloorView, nameOf: (agent: AgentId) => string): string | null {
  const names = view.next.map(nameOf);
  if (names.length === 0) return null;
  const more = names.length - NEXT_SHOWN;
  return `next: ${names.slice(0, NEXT_SHOWN).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

function heldWords({ held }: FloorView): string | null {
  if (held.length === 0) return null;
  return `${held.length} ${held.length === 1 ? 'message' : 'messages'} held`;
}

function buttonsOf(view: FloorView): readonly CardButton[] {
  const { holder } = view;
  const epoch = holder?.epoch ?? null;
  const asked = holder?.approval?.shown === true ? holder.approval : null;
  const button = (label: string, line: string, style: CardButton['style'] = 'plain'): CardButton => ({
    label,
    line,
    epoch,
    style,
  });
  return [
    ...(asked === null ? [] : answersTo(asked).map((answer) => ({ ...answer, epoch }))),
    ...(holder === null ? [] : [button('Skip', '/floor skip'), button('Stop', '/stop', 'danger')]),
    isStill(view) ? button('Resume', '/floor resume', 'good') : button('Pause', '/floor pause'),
  ];
}

/** The buttons that answer a question; every one is a command line. */
function answersTo({ question, always, pause }: Question): readonly Omit<CardButton, 'epoch'>[] {
  if (pause !== undefined) {
    return [
      { label: 'Continue', line: `/allow ${question}`, style: 'good' },
      { label: 'Complete', line: '/run complete', style: 'plain' },
      { label: 'Abort', line: `/reject ${question}`, style: 'danger' },
    ];
  }
  const of = (always ?? []).map(({ words }, index) => ({ words, line: `/allow ${question} always ${index + 1}` }));
  const no = `/reject ${question}`;
  const rules: Omit<CardButton, 'epoch'> = {
    label: 'Always…',
    line: `/allow ${question} always`,
    style: 'plain',
    opens: { what: 'rules', of },
  };
  return [
    { label: 'Once', line: `/allow ${question}`, style: 'good' },
    ...(of.length === 0 ? [] : [rules]),
    { label: 'No', line: no, style: 'danger' },
    { label: 'No because…', line: no, style: 'plain', opens: { what: 'reason' } },
    { label: 'Whole input', line: '/floor status', style: 'plain', opens: { what: 'input' } },
  ];
}

/** What a button of a question opens: words, buttons, and what is too long for a message as a file. */
export type OpenedQuestion = {
  readonly text: string;
  /** The line of the button that opens it. */
  readonly line: string;
  readonly buttons?: readonly CardButton[];
  readonly file?: { readonly name: string; readonly text: string };
};

/** What a button of the holder's question opens, to be shown to whoever pressed it; `null` when it asks nothing that has such a button. */
export function questionOpened(
  { approval, epoch }: NonNullable<FloorView['holder']>,
  what: ButtonOpens['what'],
): OpenedQuestion | null {
  const button = approval === null ? undefined : answersTo(approval).find(({ opens }) => opens?.what === what);
  if (approval === null || button?.opens === undefined) return null;
  const { line, opens } = button;
  if (opens.what === 'rules') {
    const text = `From now on, for 30 days, for this agent in this channel, without asking (/run approvals takes it back):`;
    return {
      text,
      line,
      buttons: opens.of.map((each) => ({ label: each.words, line: each.line, epoch, style: 'plain' })),
    };
  }
  const name = isDiff(approval.detail) ? 'changes.diff' : 'input.txt';
  return { text: `All of what is asked (${approval.question}):`, line, file: { name, text: approval.detail } };
}

/** Whether the floor goes on once somebody says so. */
function isStill({ condition, holder, obstacles }: FloorView): boolean {
  if (condition === 'paused') return true;
  return holder === null && obstacles.some(({ why }) => ['limit', 'day-limit', 'stopped'].includes(why));
}
