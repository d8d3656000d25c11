import type { ChannelId, MessageId } from '../floor/settings.ts';
import type { Instant } from '../../lib/time.ts';
import { requestsOn } from '../floor/seats.ts';
import type { FloorView, InboxRow, JournalEntry, TurnRecord } from '../view.ts';
import { clockWords, counted, excerpt, timeWords } from './clock-words.ts';
import type { CommandContext, Person } from './context.ts';
import { factWords, fateWords, list, WAITS_FOR } from './fact-words.ts';
import { didYouMean } from '../../lib/nearest.ts';
import { quoted, usage } from './parse.ts';
import { COMMANDS } from './command-table.ts';
import type { CommandRow } from './command-table.ts';
import { MODES, POLICIES } from '../floor/policies.ts';
import type { Limit } from '../floor/announcement.ts';
import { limitName } from '../text/words.ts';
import { firstFor } from '../floor/gate.ts';
import type { Obstacle } from '../floor/gate.ts';
import type { NameOf } from './fact-words.ts';

/** Returns the answer of `/floor log`: one line per turn, oldest first. */
export function logText(channel: ChannelId, count: number, context: CommandContext): string {
  const turns = context.floors.turns(channel, count);
  return turns.length === 0
    ? 'No turns yet.'
    : turns.map((turn) => turnLine(turn, context, context.clock.now())).join('\n');
}

/**
 * Returns the answer of `/why`: what happened to a message, with times. Returns `null` when the channel has no such
 * message.
 */
export function whyText(channel: ChannelId, id: string, context: CommandContext): string | null {
  const row = context.floors.message(id);
  if (row === null || row.channel !== channel) return null;
  const now = context.clock.now();
  const name = context.names.agent;
  const entries = context.floors.why(id).filter((entry) => entry.key === channel);
  const steps = entries.map((entry) => `${timeWords(entry.at, now)}  ${factWords(entry.fact, name)}`);
  const marks = [...(row.edited ? ['edited'] : []), ...(row.deleted ? ['deleted'] : [])];
  return [
    `${timeWords(row.sentAt, now)}  ${excerpt(row.author.name)} wrote${marks.length === 0 ? '' : ` (${marks.join(', ')})`}: ${excerpt(row.text)}`,
    ...steps,
    `Now: ${nowWords(row, entries, name)}.`,
    ...(row.fate?.state === 'held' ? whyHeldIn(channel, context) : []),
  ].join('\n');
}

function nowWords({ id, fate }: InboxRow, entries: readonly JournalEntry[], name: NameOf): string {
  const facts = entries.map(({ fact }) => fact);
  for (const fact of facts.toReversed()) {
    // Going back from the newest fact: a prompt with the message means that its answer is still to come.
    const isPrompt = fact.type === 'turnGranted' || fact.type === 'turnContinued' || fact.type === 'turnResumed';
    if (isPrompt && fact.messages.includes(id)) break;
    if (fact.type !== 'turnEnded') continue;
    if (fact.answered.includes(id)) return `answered by ${name(fact.agent)}`;
    if (fact.cut?.includes(id) === true) return `the answer of ${name(fact.agent)} was cut short`;
  }
  if (fate === null) return 'received, not yet delivered';
  // A message that the agent could not receive mid-turn is in its next prompt.
  const isLate = facts.some((fact) => fact.type === 'injectReported' && fact.id === id && fact.outcome !== 'injected');
  return fateWords(
    isLate && fate.state === 'delivered' && fate.via === 'inject' ? { ...fate, via: 'prompt' } : fate,
    name,
  );
}

function whyHeldIn(channel: ChannelId, context: CommandContext): readonly string[] {
  const view = context.floors.view(channel);
  const why = view === null ? null : whyHeld(view, context.names.agent);
  return why === null ? [] : [why];
}

/** Returns why held messages are not delivered now, in words. Returns `null` when nothing prevents their delivery. */
export function whyHeld({ holder, obstacles }: Pick<FloorView, 'holder' | 'obstacles'>, name: NameOf): string | null {
  if (holder?.waitingFor === 'approval') return `${name(holder.agent)} waits for approval.`;
  const first = firstFor('person', obstacles) ?? obstacles[0];
  return first === undefined ? null : obstacleWords(first, name);
}

/** Returns the answer of `/agent list`. */
export function agentsText(context: CommandContext): string {
  const rows = context.roster.list().map((agent) => {
    const channels = agent.channels.map((channel) => context.names.channel(channel)).join(', ') || 'no channel';
    const name = agent.name === agent.id ? agent.id : `${agent.id} (${agent.name})`;
    return `${name} · ${agent.backend} · ${agent.state} · ${channels}`;
  });
  return rows.length === 0 ? 'There are no agents. Add some to turnConfig.json.' : rows.join('\n');
}

/** Returns the answer of `/whoami`. */
export function whoamiText(person: Person, operates: boolean): string {
  const roles = person.roles.length === 0 ? [] : [`Your roles: ${person.roles.join(', ')}.`];
  const may = operates
    ? 'You are an operator: you may use all commands.'
    : 'You may look, not change. To become an operator, add your id or a role to "operators" in turnConfig.json.';
  return [`You are ${excerpt(person.name)}, id ${person.id}.`, ...roles, may].join('\n');
}

/** Returns the answer of `/help`: all commands, a group, or one. Returns `null` for an unknown command. */
export function helpText(command: string | undefined): string | null {
  if (command === undefined) {
    return [...COMMANDS.map((row) => `${usage(row)}: ${row.summary}`), OPEN_TO].join('\n');
  }
  const row: CommandRow | undefined = COMMANDS.find(
    ({ path, alias }: CommandRow) => path === command || alias === command,
  );
  if (row !== undefined) return rowHelp(row);
  const group = COMMANDS.filter((each) => each.path.startsWith(`${command} `));
  return group.length === 0 ? null : group.map((each) => `${usage(each)}: ${each.summary}`).join('\n');
}

/** Returns the answer of `/help` for an unknown command. */
export function noHelp(command: string): string {
  const paths = COMMANDS.map((row) => row.path);
  return `There is no command ${quoted(command)}.${didYouMean(command, paths)} All commands: /help`;
}

const OPEN_TO = 'Everybody may look. Only operators may change something.';

function rowHelp(row: CommandRow): string {
  const open = row.needs === 'read' ? 'For everybody.' : 'For operators.';
  const shows = row.withoutArguments === undefined ? '' : ' Without arguments it only shows, for everybody.';
  return [
    `${usage(row)}: ${row.summary}`,
    ...row.arguments.map((argument) => `  ${argument.name}: ${argument.summary}`),
    ...(row.options ?? []).map(({ name, summary }) => `  --${name}: ${summary}`),
    `Example: ${row.example}`,
    `${open}${shows}`,
  ].join('\n');
}

function turnLine(turn: TurnRecord, context: CommandContext, now: Instant): string {
  const waits = turn.waits.length === 0 ? [] : [`waited for ${turn.waits.map((wait) => wait.reason).join(', ')}`];
  return [
    `${timeWords(turn.startedAt, now)}  #${turn.epoch} ${context.names.agent(turn.agent)}`,
    clockWords((turn.endedAt ?? now) - turn.startedAt),
    turn.outcome ?? 'in progress',
    turn.said === 0 ? 'nothing said' : `${counted(turn.said, 'message')} said`,
    ...waits,
  ].join(' · ');
}

/** Returns the floor in one line: "🎤 dev · 1:12 left · next: qa, pm". */
export function floorLine(view: FloorView, name: NameOf, now: Instant): string {
  const next = `next: ${list(view.next, name)}`;
  const { holder } = view;
  if (holder === null) return [CONDITIONS[view.condition], next].join(' · ');
  const work = holder.working ? ['working'] : [];
  const timeLeft = holder.deadlineAt === null ? [] : [`${clockWords(holder.deadlineAt - now)} left`];
  const waits = holder.waitingFor === null ? '' : ` waits for ${WAITS_FOR[holder.waitingFor]}`;
  const sign = holder.status === 'WAITING' ? '✋' : '🎤';
  return [`${sign} ${name(holder.agent)}${waits}`, ...work, ...timeLeft, next].join(' · ');
}

/** Returns each open request and how to answer it, one line each. */
export function questionLines(view: FloorView, name: NameOf): readonly string[] {
  return requestsOn(view).map(({ agent, isBackground, question: { question, title, about } }) => {
    const who = `${name(agent)}${isBackground ? '’s background run' : ''}`;
    if (about?.answer !== undefined)
      return `${who} asks: ${excerpt(title, TITLE_LENGTH)}. To answer: /answer ${question} ${about.answer}. To decline: /reject ${question}`;
    return `${who} waits for approval: ${excerpt(title, TITLE_LENGTH)}. To decide: /allow ${question} or /reject ${question}`;
  });
}

/** Returns the answer of `/floor status`. */
export function statusText(view: FloorView, context: CommandContext): string {
  const name = context.names.agent;
  const turns = view.turns === null ? [] : [`${view.turns.used} of ${view.turns.allowed} turns used`];
  const settings = [view.condition, `mode ${view.mode}`, `order ${view.order}`, ...turns];
  const suspended = context.suspended?.(view.channel) ?? null;
  return [
    floorLine(view, name, context.clock.now()),
    ...(suspended === null ? [] : [`⏸ ${suspended}. Conch checks the channel again by itself and then continues.`]),
    ...notices(view, name),
    ...questionLines(view, name),
    settings.join(' · '),
    ...(view.held.length === 0 ? [] : [`${counted(view.held.length, 'held message')} (/queue shows them)`]),
    `Seats: ${view.seats.map((seat) => seatWords(seat, name)).join(' · ') || 'none (/floor add <agent>)'}`,
  ].join('\n');
}

/** Returns the answer of `/queue`. */
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

/** Returns the answer of `/floor mode`: the present mode, and what each mode does. */
export function modeText(view: FloorView): string {
  const rows = Object.entries(MODES).map(([mode, { summary }]) => `${mode}: ${summary}`);
  return [`Mode: ${view.mode}. Modes:`, ...rows].join('\n');
}

/** Returns the answer of `/floor order`: the present order, who is next, and what each order does. */
export function orderText(view: FloorView, name: NameOf): string {
  const rows = Object.entries(POLICIES).map(([order, { summary }]) => `${order}: ${summary}`);
  const next = list(view.next, name);
  return [`Order: ${view.order}, next: ${next}. Orders:`, ...rows].join('\n');
}

const CONDITIONS = {
  resting: 'The floor rests',
  open: 'Nobody holds the floor',
  paused: '⏸ The floor is paused',
} as const;
const MAX_HELD_SHOWN = 20;
const TITLE_LENGTH = 100;

function notices(view: FloorView, name: NameOf): readonly string[] {
  const unsaid = view.obstacles.filter(({ why }) => !SAID_FIRST.has(why));
  const [first] = view.obstacles;
  return (unsaid.length === 0 && first?.why === 'resting' ? [first] : unsaid).map((each) => obstacleWords(each, name));
}

const SAID_FIRST: ReadonlySet<Obstacle['why']> = new Set(['paused', 'taken', 'over-budget', 'resting']);

/**
 * Returns whether `/floor resume` would end a pause, a limit or a stop: the floor is paused; or nobody holds it, a
 * limit or a stop blocks it, its history is read, and agents are available.
 */
export function canResume({ condition, holder, obstacles }: FloorView): boolean {
  const isAny = (...kinds: readonly string[]): boolean => obstacles.some(({ why }) => kinds.includes(why));
  if (condition === 'paused') return true;
  return holder === null && isAny('limit', 'day-limit', 'stopped') && !isAny('catching-up', 'nobody-available');
}

/** Returns why no turn is granted now, and for most reasons how to continue. */
export function obstacleWords(obstacle: Obstacle, name: NameOf): string {
  switch (obstacle.why) {
    case 'catching-up':
      return 'Conch reads the channel’s history; turns start after that.';
    case 'paused':
      return '⏸ The floor is paused. To continue: /floor resume.';
    case 'taken':
      return `${name(obstacle.agent)} holds the floor.`;
    case 'limit':
    case 'day-limit':
      return limitWords(obstacle.budget);
    case 'over-budget':
      return limitWords(obstacle.limit.budget);
    case 'stopped':
      return '⏹ A person stopped the floor. To continue: write a message, or /floor resume.';
    case 'facilitation':
      return `${name(obstacle.agent)} chooses the next agent.`;
    case 'nobody-available':
      return 'No agents are available: /agent list shows why.';
    case 'resting':
      return RESTS[obstacle.after];
  }
}

const RESTS = {
  review: 'The floor rests while the review waits: /review status says for what.',
  ticket: 'The floor rests between two steps: /crew ps says what it waits for.',
  manual: 'The floor rests. To give a turn: /floor grant <agent>.',
  mention: 'The floor rests. To give a turn: mention an agent in a message.',
  rounds: 'The floor rests: all agents had a turn. To continue: write a message, or /floor resume.',
  nothing: 'The floor rests. To start: write a message, or /floor start.',
} as const;

function limitWords(limit: Limit['budget']): string {
  const instruction = limit.endsWith(' a day') ? '/floor resume' : 'write a message, or /floor resume';
  return `⏸ The ${limitName(limit)} is reached. To continue: ${instruction}.`;
}

function seatWords(seat: FloorView['seats'][number], name: NameOf): string {
  return `${name(seat.agent)} ${seat.status}${seat.disabled ? ' (disabled)' : ''}`;
}

function heldWords(id: MessageId, context: CommandContext): string {
  const row = context.floors.message(id);
  return row === null ? `- message ${id}` : `- ${excerpt(row.author.name)}: ${excerpt(row.text)} (${id})`;
}
