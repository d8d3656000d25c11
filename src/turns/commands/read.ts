import type { ChannelId } from '../floor/settings.ts';
import type { Instant } from '../../lib/time.ts';
import type { TurnRecord } from '../view.ts';
import { clockWords, counted, excerpt } from './clock-words.ts';
import type { CommandContext } from './context.ts';
import { factWords, fateWords } from './fact-words.ts';
import { obstacleWords } from './floor-words.ts';
import { didYouMean } from '../../lib/nearest.ts';
import { quoted, usage } from './parse.ts';
import type { Person } from './roles.ts';
import { COMMANDS } from './command-table.ts';
import type { CommandRow } from './command-table.ts';

/** The answer of `/floor log`: one line per turn, oldest first. */
export function logText(channel: ChannelId, count: number, context: CommandContext): string {
  const turns = context.floors.turns(channel, count);
  return turns.length === 0
    ? 'No turns yet.'
    : turns.map((turn) => turnLine(turn, context, context.clock.now())).join('\n');
}

/** The answer of `/why`: every step of a message with its time; `null` when this channel has no such message. */
export function whyText(channel: ChannelId, id: string, context: CommandContext): string | null {
  const row = context.floors.message(id);
  if (row === null || row.channel !== channel) return null;
  const now = context.clock.now();
  const name = context.names.agent;
  const steps = context.floors
    .why(id)
    .filter((entry) => entry.key === channel)
    .map((entry) => `${context.time(entry.at, now)}  ${factWords(entry.fact, name)}`);
  const marks = [...(row.edited ? ['edited'] : []), ...(row.deleted ? ['deleted'] : [])];
  return [
    `${context.time(row.sentAt, now)}  ${excerpt(row.author.name)} wrote${marks.length === 0 ? '' : ` (${marks.join(', ')})`}: ${excerpt(row.text)}`,
    ...steps,
    row.fate === null ? 'Now: taken in, not yet given to the floor.' : `Now: ${fateWords(row.fate, name)}.`,
    ...(row.fate?.state === 'held' ? whyHeld(channel, context) : []),
  ].join('\n');
}

/** What stands between a held message and an agent. */
function whyHeld(channel: ChannelId, context: CommandContext): readonly string[] {
  const [first] = context.floors.view(channel)?.obstacles ?? [];
  return first === undefined ? [] : [obstacleWords(first, context.names.agent)];
}

/** The answer of `/agent list`. */
export function agentsText(context: CommandContext): string {
  const rows = context.roster.list().map((agent) => {
    const channels = agent.channels.map((channel) => context.names.channel(channel)).join(', ') || 'no channel';
    const name = agent.name === agent.id ? agent.id : `${agent.id} (${agent.name})`;
    return `${name} · ${agent.backend} · ${agent.state} · ${channels}`;
  });
  return rows.length === 0 ? 'There are no agents. Add some to turnConfig.json.' : rows.join('\n');
}

/** The answer of `/whoami`. */
export function whoamiText(person: Person, operates: boolean): string {
  const roles = person.roles.length === 0 ? [] : [`Your roles: ${person.roles.join(', ')}.`];
  const may = operates
    ? 'You are an operator: all commands are open to you.'
    : 'You may read. To change floors, put your id or one of your roles into "operators" in turnConfig.json.';
  return [`You are ${excerpt(person.name)}, id ${person.id}.`, ...roles, may].join('\n');
}

/** The answer of `/help`: all commands, a group of them, or one; `null` when there is no such command. */
export function helpText(command: string | undefined): string | null {
  if (command === undefined) {
    return [...COMMANDS.map((row) => `${usage(row)}: ${row.summary}`), OPEN_TO].join('\n');
  }
  const row: CommandRow | undefined = COMMANDS.find((each) => each.path === command);
  if (row !== undefined) return rowHelp(row);
  const group = COMMANDS.filter((each) => each.path.startsWith(`${command} `));
  return group.length === 0 ? null : group.map((each) => `${usage(each)}: ${each.summary}`).join('\n');
}

/** What to say to `/help` for a command that is not there. */
export function noHelp(command: string): string {
  const paths = COMMANDS.map((row) => row.path);
  return `There is no command ${quoted(command)}.${didYouMean(command, paths)} /help shows them all.`;
}

const OPEN_TO = 'Everybody may read; changing something needs the operator role.';

function rowHelp(row: CommandRow): string {
  const open = row.needs === 'read' ? 'Open to all.' : 'For operators.';
  const bare = row.bare === undefined ? '' : ' Without arguments it only shows, and is open to all.';
  return [
    `${usage(row)}: ${row.summary}`,
    ...row.arguments.map((argument) => `  ${argument.name}: ${argument.summary}`),
    `For example ${row.example}`,
    `${open}${bare}`,
  ].join('\n');
}

function turnLine(turn: TurnRecord, context: CommandContext, now: Instant): string {
  const waits = turn.waits.length === 0 ? [] : [`waited for ${turn.waits.map((wait) => wait.reason).join(', ')}`];
  return [
    `${context.time(turn.startedAt, now)}  #${turn.epoch} ${context.names.agent(turn.agent)}`,
    clockWords((turn.endedAt ?? now) - turn.startedAt),
    turn.outcome ?? 'under way',
    turn.said === 0 ? 'nothing said' : `${counted(turn.said, 'message')} said`,
    ...waits,
  ].join(' · ');
}
