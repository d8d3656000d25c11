import { counted, excerpt } from '../../turns/commands/clock-words.ts';
import { dollars } from '../../turns/crew-view.ts';
import type { CrewButton, CrewView, CrewWorkerView, TicketView } from '../../turns/crew-view.ts';
import { forTurn } from '../../turns/drawn-for.ts';
import type { ChannelId } from '../../turns/floor/settings.ts';
import { utcTime } from '../../turns/text/words.ts';
import type { CardButton } from './card.ts';

/** What the floor card of a channel shows of the channel's crew or, in a ticket's thread, of the ticket. */
export type CrewCard = {
  readonly text: string;
  /** Groups of buttons, each for one worker, one proposed ticket, or the whole crew. */
  readonly buttons: readonly (readonly CardButton[])[];
  /** One key for each worker that waits for people: the worker's name and its `since`. */
  readonly asks: readonly string[];
  /** Whether the crew runs or has tickets in work. */
  readonly isBusy: boolean;
};

/**
 * The most UTF-16 units of a crew's lines before "… and 3 more". Leaves room for the floor's line in the same message.
 */
const LONGEST = 1_500;
const LONGEST_LINE = 240;
const PROPOSED_SHOWN = 3;

/**
 * Returns the card of a crew in its channel, or of a ticket in its thread; `null` in a thread whose ticket has no
 * worker now. Workers that wait for people come first.
 */
export function crewCard(crew: CrewView, channel: ChannelId): CrewCard | null {
  const { workers, running, store } = crew;
  const isThread = channel !== crew.channel;
  const shownWorkers = workers.filter(({ ticket }) => (isThread ? ticket?.thread === channel : ticket !== null));
  if (isThread && shownWorkers.length === 0) return null;
  const askingWorkers = shownWorkers.filter(({ asksPeople }) => asksPeople);
  const toCardButtons = (buttons: readonly CrewButton[], suffix: string) =>
    buttons.map((button) => toCardButton(button, store, suffix));
  const groups = (isThread ? shownWorkers : askingWorkers).map(({ name, buttons }) =>
    toCardButtons(buttons, isThread ? '' : ` (${name})`),
  );
  const proposed = isThread ? [] : proposedTickets(crew);
  groups.push(...proposed.map(({ buttons = [] }) => toCardButtons(buttons, '')));
  return {
    text: fitLines([
      ...(isThread ? [] : headLines(crew)),
      ...shownWorkers.map(workerLine),
      ...proposed.map(proposedLine),
    ]),
    buttons: isThread ? groups : [...groups, toCardButtons(crew.buttons, ' crew')],
    asks: askingWorkers.map(({ name, since }) => `${name}.${since}`),
    isBusy: running || shownWorkers.length > 0,
  };
}

function proposedTickets({ groups }: CrewView): readonly TicketView[] {
  return (groups.find(({ state }) => state === 'proposed')?.tickets ?? []).slice(0, PROPOSED_SHOWN);
}

function proposedLine({ id, words }: TicketView): string {
  return `✎ ${id} is proposed: ${words}`;
}

function toCardButton({ label, line, style, mark }: CrewButton, store: string, suffix: string): CardButton {
  return { label: `${label}${suffix}`, line, style, drawnFor: forTurn(store, mark) };
}

function headLines({ id, running, paused, workers, merges, costMicros, problems }: CrewView): readonly string[] {
  const busyCount = workers.filter(({ ticket }) => ticket !== null).length;
  const askingCount = workers.filter(({ asksPeople }) => asksPeople).length;
  const state = !running
    ? 'stopped'
    : paused === null
      ? 'works'
      : `waits until ${utcTime(paused.until)}: ${paused.why}`;
  const waits = askingCount === 0 ? '' : ` · ✋ ${counted(askingCount, 'worker')} waiting for people`;
  return [
    `👷 crew ${id} ${state} · ${busyCount} of ${counted(workers.length, 'worker')} at work · ${merges.merged} merged · ${dollars(costMicros)}${waits}`,
    ...problems.map((words) => `⚠ ${words}`),
  ];
}

function workerLine({ name, symbol, ticket, steps, maxSteps, waits, since, asksPeople }: CrewWorkerView): string {
  const head = `${asksPeople ? '✋' : symbol} ${name} · ${ticket?.id ?? ''}`;
  if (asksPeople) return `${head} · since ${utcTime(since ?? 0)}: ${waits}`;
  return `${head} · step ${steps} of ${maxSteps}${waits === '' ? '' : ` · ${waits}`}`;
}

function fitLines(lines: readonly string[]): string {
  const shownLines: string[] = [];
  let length = 0;
  for (const line of lines.map((each) => excerpt(each, LONGEST_LINE))) {
    length += line.length + 1;
    if (length > LONGEST) break;
    shownLines.push(line);
  }
  const more = lines.length - shownLines.length;
  return [...shownLines, ...(more > 0 ? [`… and ${more} more: /crew ps`] : [])].join('\n');
}
