import { MODES, POLICIES } from '../floor/policies.ts';
import type { MessageId } from '../floor/settings.ts';
import type { Instant } from '../../lib/time.ts';
import type { Obstacle } from '../floor/gate.ts';
import type { FloorView } from '../view.ts';
import { clockWords, counted, excerpt } from './clock-words.ts';
import type { CommandContext } from './context.ts';
import { list, WAITS_FOR } from './fact-words.ts';
import type { NameOf } from './fact-words.ts';

/** The floor in one line: "🎤 dev · 1:12 left · next: qa, pm". */
export function floorLine(view: FloorView, name: NameOf, now: Instant): string {
  const next = `next: ${list(view.next, name)}`;
  const { holder } = view;
  if (holder === null) return [CONDITIONS[view.condition], next].join(' · ');
  const work = holder.working ? ['working'] : [];
  const left = holder.deadlineAt === null ? [] : [`${clockWords(holder.deadlineAt - now)} left`];
  const waits = holder.waitingFor === null ? '' : ` waits for ${WAITS_FOR[holder.waitingFor]}`;
  const sign = holder.status === 'WAITING' ? '✋' : '🎤';
  return [`${sign} ${name(holder.agent)}${waits}`, ...work, ...left, next].join(' · ');
}

/** What the holder asks a yes for and how to answer, in one line; `null` when it asks nothing. */
export function questionLine(holder: FloorView['holder'], name: NameOf): string | null {
  if (holder === null || holder.approval === null) return null;
  const { question, title } = holder.approval;
  return `${name(holder.agent)} asks for a yes. Say /allow ${question} to allow, /reject ${question} to reject: ${excerpt(title, TITLE_LENGTH)}`;
}

/** The answer of `/floor status`. */
export function statusText(view: FloorView, context: CommandContext): string {
  const name = context.names.agent;
  const turns = view.turns === null ? [] : [`${view.turns.used} of ${view.turns.allowed} turns since the last message`];
  const settings = [view.condition, `mode ${view.mode}`, `order ${view.order}`, ...turns];
  return [
    floorLine(view, name, context.clock.now()),
    ...notices(view, name),
    ...[questionLine(view.holder, name)].filter((line) => line !== null),
    settings.join(' · '),
    ...(view.held.length === 0 ? [] : [`${counted(view.held.length, 'held message')} (/queue shows them)`]),
    `Seats: ${view.seats.map((seat) => seatWords(seat, name)).join(' · ') || 'none (/floor add <agent>)'}`,
  ].join('\n');
}

/** The answer of `/queue`. */
export function queueText(view: FloorView, context: CommandContext): string {
  const name = context.names.agent;
  const next = view.next.map((agent, index) => `${index + 1}. ${name(agent)}`);
  const held = view.held.slice(0, MAX_HELD_SHOWN).map((id) => heldWords(id, context));
  const more = view.held.length - held.length;
  return [
    floorLine({ ...view, next: view.next.slice(0, 1) }, name, context.clock.now()),
    ...notices(view, name),
    ...(next.length === 0 ? ['The queue is empty.'] : next),
    view.held.length === 0 ? 'No held messages.' : `${counted(view.held.length, 'held message')}:`,
    ...held,
    ...(more > 0 ? [`… and ${more} more`] : []),
  ].join('\n');
}

/** The answer of `/floor mode`: the mode now, and what each mode does. */
export function modeText(view: FloorView): string {
  const rows = Object.entries(MODES).map(([mode, { summary }]) => `${mode}: ${summary}`);
  return [`Mode: ${view.mode}. There are:`, ...rows].join('\n');
}

/** The answer of `/floor order`: the policy now, and what each policy does. */
export function orderText(view: FloorView, name: NameOf): string {
  const rows = Object.entries(POLICIES).map(([order, { summary }]) => `${order}: ${summary}`);
  const next = list(view.next, name);
  return [`Order: ${view.order}, next: ${next}. There are:`, ...rows].join('\n');
}

const CONDITIONS = {
  resting: 'The floor rests',
  open: 'Nobody has the floor',
  paused: '⏸ The floor is paused',
} as const;
const MAX_HELD_SHOWN = 20;
const TITLE_LENGTH = 100;

/** What the first line does not say already. */
function notices(view: FloorView, name: NameOf): readonly string[] {
  return view.obstacles.filter(({ why }) => !SAID_FIRST.has(why)).map((obstacle) => obstacleWords(obstacle, name));
}

const SAID_FIRST: ReadonlySet<Obstacle['why']> = new Set(['paused', 'taken', 'over-budget', 'facilitation', 'resting']);

/** Why the floor is not granted now, and the way on, in one sentence. */
export function obstacleWords(obstacle: Obstacle, name: NameOf): string {
  switch (obstacle.why) {
    case 'catching-up':
      return "The channel's history is being read; no turns until then.";
    case 'paused':
      return '⏸ The floor is paused: run /floor resume to go on.';
    case 'taken':
      return `${name(obstacle.agent)} has the floor.`;
    case 'limit':
    case 'day-limit':
      return limitWords(obstacle.budget);
    case 'over-budget':
      return limitWords(obstacle.limit.budget);
    case 'stopped':
      return '⏹ A person stopped the floor: write a message or run /floor resume.';
    case 'facilitation':
      return `${name(obstacle.agent)} is asked who is next.`;
    case 'nobody-available':
      return 'No agents are available: /agent list shows why.';
    case 'resting':
      return 'The floor rests.';
  }
}

function limitWords(limit: string): string {
  const way = limit === 'turns' ? 'write a message or run /floor resume' : 'run /floor resume to go on';
  return `⏸ The limit of ${limit} is reached: ${way}.`;
}

function seatWords(seat: FloorView['seats'][number], name: NameOf): string {
  return `${name(seat.agent)} ${seat.status}${seat.disabled ? ' (disabled)' : ''}`;
}

function heldWords(id: MessageId, context: CommandContext): string {
  const row = context.floors.message(id);
  return row === null ? `- message ${id}` : `- ${excerpt(row.author.name)}: ${excerpt(row.text)} (${id})`;
}
