import type { JSX } from 'preact';
import { WAITS_FOR } from '../../../turns/commands/fact-words.ts';
import { obstacleWords } from '../../../turns/commands/read.ts';
import type { FloorView } from '../../../turns/view.ts';
import { AskWhy } from './floor-tab.tsx';
import { Avatar, toneOf } from '../parts.tsx';
import { Icon, Shell } from '../icons.tsx';
import { drawerOpen, tab, agentOf, connection, view, writable } from '../state.ts';
import { clockText, now, timeToTheSecond } from '../now.ts';
import { pressButton } from '../sending.ts';
import { pauseOrResume, skipTurn, stopAll } from '../frame/shortcuts.tsx';

/** Who has the floor, for how long, who is next, and the three things that people do about it. */
export function FloorBar(): JSX.Element {
  const floor = view.value;
  const holder = floor?.holder ?? null;
  const tone = holder === null ? 'tone-none' : toneOf(holder.agent);
  const state = holder?.status ?? floor?.condition ?? 'resting';
  return (
    <section class={`floor-bar ${tone}`} data-state={state} aria-label="The floor">
      <Ring floor={floor} />
      <div class="floor-words">
        <Headline floor={floor} />
        {holder !== null && connection.value !== 'lost' ? (
          <p class="floor-detail">
            <Detail floor={floor} />
          </p>
        ) : (
          <p class="floor-why">
            {whyNobody(floor)} {isDeserted(floor) && <AskWhy line="/agent list" />}
          </p>
        )}
      </div>
      <Next floor={floor} />
      <Actions floor={floor} />
    </section>
  );
}

type Floor = { readonly floor: FloorView | null };

const AROUND = 2 * Math.PI * 21;

function Ring({ floor }: Floor): JSX.Element {
  const holder = floor?.holder ?? null;
  const agent = holder === null ? null : agentOf(holder.agent);
  const left = shareLeft(floor);
  return (
    <span class="ring">
      <svg viewBox="0 0 48 48" aria-hidden="true">
        <circle class="ring-track" cx="24" cy="24" r="21" />
        {holder !== null && (
          <circle class="ring-left" cx="24" cy="24" r="21" stroke-dasharray={`${AROUND * left} ${AROUND}`} />
        )}
      </svg>
      {agent === null ? <Shell /> : <Avatar id={agent.id} name={agent.name} avatar={agent.avatar} />}
    </span>
  );
}

/** Which share of the holder's time is left: 1 at the last sign of work, 0 at the end. */
function shareLeft(floor: FloorView | null): number {
  const holder = floor?.holder ?? null;
  const end = holder === null ? null : endOf(floor);
  if (holder === null || end === null) return 1;
  const window = Math.max(1, end - Math.max(holder.startedAt, longest.from(holder.epoch, end)));
  return Math.min(1, Math.max(0, (end - now.value) / window));
}

/** The ring is full whenever the deadline moves. */
const longest = {
  epoch: -1,
  end: 0,
  start: 0,
  from(epoch: number, end: number): number {
    if (this.epoch !== epoch || this.end !== end) Object.assign(this, { epoch, end, start: now.peek() });
    return this.start;
  },
};

function endOf(floor: FloorView | null): number | null {
  const holder = floor?.holder ?? null;
  if (floor === null || holder === null) return null;
  if (holder.status === 'ACTIVE') return holder.deadlineAt;
  return floor.seats.find((seat) => seat.agent === holder.agent)?.waitUntil ?? holder.deadlineAt;
}

function Headline({ floor }: Floor): JSX.Element {
  const holder = floor?.holder ?? null;
  if (holder !== null) {
    const { name } = agentOf(holder.agent);
    return (
      <p class="floor-headline" title={name}>
        <strong data-testid="holder" data-agent={holder.agent} data-epoch={holder.epoch}>
          {name}
        </strong>{' '}
        <span>
          {holder.status === 'WAITING' ? `waits for ${WAITS_FOR[holder.waitingFor ?? 'answer']}` : 'has the floor'}
        </span>
      </p>
    );
  }
  const words = { resting: 'The floor is resting', open: 'The floor is free', paused: 'The floor is paused' } as const;
  return (
    <p class="floor-headline" data-testid="holder" data-agent="">
      {floor?.obstacles.some(({ why }) => why === 'catching-up') === true
        ? 'Reading what was missed…'
        : words[floor?.condition ?? 'resting']}
    </p>
  );
}

function Detail({ floor }: Floor): JSX.Element | null {
  if (floor === null || floor.holder === null) return null;
  const { holder, condition, turns } = floor;
  const end = endOf(floor);
  return (
    <>
      <span class="clock" data-testid="holder-clock" role="timer">
        {end === null ? 'no limit while a tool runs' : `${clockText(end - now.value)} left`}
      </span>
      {holder.working && holder.status === 'ACTIVE' && (
        <span class="working">
          <span class="pulse" aria-hidden="true" />
          working
        </span>
      )}
      {turns !== null && (
        <span class="wide-only">
          {turns.used} of {turns.allowed} turns used
        </span>
      )}
      {condition === 'paused' && <span>paused after this turn</span>}
      <NextInShort floor={floor} />
    </>
  );
}

/** Why nobody has the floor and what to do, or since when it is not known. */
function whyNobody(floor: FloorView | null): string {
  if (connection.value === 'lost') return `No connection since ${timeToTheSecond(now.value)}: this may have changed`;
  const [first] = floor?.obstacles ?? [];
  if (floor === null) return 'Nothing is known of this floor yet';
  if (first === undefined || (first.why === 'resting' && (first.after === 'nothing' || !writable.value))) {
    return writable.value ? 'Write a message and the agents take turns' : 'It opens when somebody writes there';
  }
  return obstacleWords(first, (id) => agentOf(id).name);
}

/** Nobody is there who could take a turn. */
function isDeserted(floor: FloorView | null): boolean {
  return connection.value === 'open' && floor?.obstacles[0]?.why === 'nobody-available';
}

/** A budget is used up, and only people can go on. */
function isLimited(floor: FloorView | null): boolean {
  return floor?.obstacles.some(({ why }) => why === 'limit' || why === 'day-limit') === true;
}

/** Who is next, where there is no room for the queue. */
function NextInShort({ floor }: Floor): JSX.Element | null {
  const [first, ...others] = floor?.next ?? [];
  if (first === undefined) return null;
  return (
    <span class="next-short" aria-hidden="true">
      next {agentOf(first).name}
      {others.length > 0 && ` +${others.length}`}
    </span>
  );
}

/** How many of the queue have a name where there is room; the others are a number. */
const CHIPS = 4;

function Next({ floor }: Floor): JSX.Element | null {
  const next = floor?.next ?? [];
  const held = floor?.held.length ?? 0;
  if (next.length === 0 && held === 0) return null;
  return (
    <div class="next">
      {next.length > 0 && (
        <ol class="next-list" aria-label="Next in the queue">
          {next.slice(0, CHIPS).map((id, place) => (
            <li key={id} class={`chip ${toneOf(id)}`} title={agentOf(id).name}>
              {place === 0 && <span class="chip-lead">next</span>}
              <span class="chip-name">{agentOf(id).name}</span>
            </li>
          ))}
          {next.length > CHIPS && <li class="chip of-wide">+{next.length - CHIPS}</li>}
          {next.length > 1 && <li class="chip of-narrow">+{next.length - 1}</li>}
        </ol>
      )}
      {held > 0 && (
        <button type="button" class="chip held-chip" onClick={showFloor}>
          {held} held
        </button>
      )}
    </div>
  );
}

function showFloor(): void {
  tab.value = 'floor';
  drawerOpen.value = true;
}

function Actions({ floor }: Floor): JSX.Element {
  const holder = floor?.holder ?? null;
  const idle = holder === null && floor?.condition === 'resting';
  const limited = idle && isLimited(floor);
  const lost = connection.value === 'lost';
  return (
    <div class="actions" role="group" aria-label="Floor actions">
      {holder !== null && (
        <button
          type="button"
          data-testid="skip"
          disabled={lost}
          onClick={skipTurn}
          title="End this turn, go on with the next (Alt+S)"
        >
          <Icon name="skip" />
          Skip
        </button>
      )}
      {idle && !limited && (
        <button type="button" data-testid="start" disabled={lost} onClick={() => pressButton('/floor start')}>
          <Icon name="play" />
          Start
        </button>
      )}
      <PauseOrResume paused={floor?.condition === 'paused'} limited={limited} />
      {(holder !== null || floor?.condition === 'open') && (
        <button
          type="button"
          class="stop"
          data-testid="stop"
          disabled={lost}
          onClick={stopAll}
          title="Stop everything at once (Alt+X)"
        >
          <Icon name="stop" />
          Stop
        </button>
      )}
    </div>
  );
}

function PauseOrResume(props: { readonly paused: boolean; readonly limited: boolean }): JSX.Element {
  const { paused, limited } = props;
  const resumes = paused || limited;
  return (
    <button
      type="button"
      data-testid={resumes ? 'resume' : 'pause'}
      disabled={connection.value === 'lost'}
      onClick={limited ? () => pressButton('/floor resume') : pauseOrResume}
      title={resumes ? 'Let the agents go on (Alt+P)' : 'Grant no new turns (Alt+P)'}
    >
      <Icon name={resumes ? 'play' : 'pause'} />
      {resumes ? 'Resume' : 'Pause'}
    </button>
  );
}
