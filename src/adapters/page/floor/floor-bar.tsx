import type { JSX } from 'preact';
import { WAITS_FOR } from '../../../turns/commands/fact-words.ts';
import { canResume, obstacleWords } from '../../../turns/commands/read.ts';
import type { FloorView } from '../../../turns/view.ts';
import { Shell } from '../icons.tsx';
import { clockText, inLocalTime, now, timeToTheSecond } from '../now.ts';
import { AskInConversation, Avatar, Button, toneOf } from '../parts.tsx';
import { pressButton } from '../sending.ts';
import {
  agentOf,
  askingHere,
  connection,
  drawerOpen,
  holder,
  nameOf,
  review,
  reviewersWords,
  tab,
  view,
  writable,
} from '../state.ts';

/** The holder with its time left, the next agents, and the buttons of the floor. */
export function FloorBar(): JSX.Element {
  const holding = holder.value;
  const tone = holding === null ? 'tone-none' : toneOf(holding.agent);
  const state = holding?.status ?? view.value?.condition ?? 'resting';
  return (
    <section class={`floor-bar ${tone}`} data-state={state} aria-label="The floor">
      <Ring />
      <div class="floor-words">
        <Headline />
        {holding !== null && connection.value !== 'lost' ? (
          <Detail {...holding} />
        ) : (
          <p class="floor-why faint">
            {questionOfReview() ?? inLocalTime(askingHere.value?.waits ?? whyNobody(), now.peek())}{' '}
            {isDeserted() && <AskInConversation line="/agent list">Why?</AskInConversation>}
          </p>
        )}
        <p class="faint" aria-live="polite">
          {reviewersWords.value && `Review: ${reviewersWords.value}`}
        </p>
      </div>
      <Next />
      <Actions />
    </section>
  );
}

type Holder = NonNullable<FloorView['holder']>;

const AROUND = 2 * Math.PI * 21;

function Ring(): JSX.Element {
  const holding = holder.value;
  return (
    <span class="ring">
      <svg viewBox="0 0 48 48" aria-hidden="true">
        <circle class="ring-track" cx="24" cy="24" r="21" />
        {holding !== null && (
          <circle
            class="ring-left"
            cx="24"
            cy="24"
            r="21"
            stroke-dasharray={`${AROUND * shareLeft(endOf(holding))} ${AROUND}`}
          />
        )}
      </svg>
      {holding === null ? <Shell /> : <Avatar {...agentOf(holding.agent)} />}
    </span>
  );
}

/** The deadline that the ring shows, and the time since which the ring shows it. */
let countdown = { end: 0, since: 0 };

/** The share of the countdown that is left, from 0 to 1. It is 1 without a deadline, and at each new deadline. */
function shareLeft(end: number | null): number {
  if (end === null) return 1;
  if (countdown.end !== end) countdown = { end, since: now.peek() };
  return Math.min(1, Math.max(0, (end - now.value) / Math.max(1, end - countdown.since)));
}

function endOf({ agent, status, deadlineAt }: Holder): number | null {
  const seat = view.value?.seats.find((each) => each.agent === agent);
  return status === 'ACTIVE' ? deadlineAt : (seat?.waitUntil ?? deadlineAt);
}

const CONDITIONS = {
  resting: 'The floor is resting',
  open: 'The floor is free',
  paused: 'The floor is paused',
} as const;

function Headline(): JSX.Element {
  const holding = holder.value;
  const { condition = 'resting', obstacles = [] } = view.value ?? {};
  if (holding === null) {
    const isCatchingUp = obstacles.some(({ why }) => why === 'catching-up');
    return (
      <p class="floor-headline" data-testid="holder" data-agent="">
        {isCatchingUp
          ? 'Reading missed messages…'
          : questionOfReview() !== null
            ? 'The review waits for you'
            : askingHere.value !== undefined
              ? `${askingHere.value.name} waits for you`
              : CONDITIONS[condition]}
      </p>
    );
  }
  const { agent, epoch, status, waitingFor } = holding;
  return (
    <p class="floor-headline" title={nameOf(agent)}>
      <strong data-testid="holder" data-agent={agent} data-epoch={epoch}>
        {nameOf(agent)}
      </strong>{' '}
      <span>{status === 'WAITING' ? `waits for ${WAITS_FOR[waitingFor ?? 'answer']}` : 'has the floor'}</span>
    </p>
  );
}

function Detail(holding: Holder): JSX.Element {
  const { turns = null, condition, next: [first, ...others] = [] } = view.value ?? {};
  const end = endOf(holding);
  return (
    <p class="floor-detail faint">
      <span class="clock" data-testid="holder-clock" role="timer">
        {end === null ? 'no limit while a tool runs' : `${clockText(end - now.value)} left`}
      </span>
      {holding.working && holding.status === 'ACTIVE' && (
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
      {first !== undefined && (
        <span class="next-short" aria-hidden="true">
          next {nameOf(first)}
          {others.length > 0 && ` +${others.length}`}
        </span>
      )}
    </p>
  );
}

function questionOfReview(): string | null {
  const waiting = holder.value === null ? review.value?.waiting : null;
  return waiting?.asksPeople === true && connection.value !== 'lost' ? waiting.why : null;
}

function showFloorTab(): void {
  tab.value = 'floor';
  drawerOpen.value = true;
}

function whyNobody(): string {
  if (connection.value === 'lost') return `Not connected since ${timeToTheSecond(now.value)}: this may have changed`;
  if (view.value === null) return 'The state of this floor is not known yet';
  const [first] = view.value.obstacles;
  if (first === undefined || (first.why === 'resting' && (first.after === 'nothing' || !writable.value))) {
    return writable.value ? 'Write a message and the agents take turns' : 'It opens when somebody writes there';
  }
  return obstacleWords(first, nameOf);
}

function isDeserted(): boolean {
  return connection.value === 'open' && view.value?.obstacles[0]?.why === 'nobody-available';
}

const CHIPS = 4;

function Next(): JSX.Element | null {
  const { next = [], held: heldIds = [] } = view.value ?? {};
  if (next.length === 0 && heldIds.length === 0) return null;
  return (
    <div class="next">
      {next.length > 0 && (
        <ol class="next-list" aria-label="Next in the queue">
          {next.slice(0, CHIPS).map((id, place) => (
            <li key={id} class={`chip ${toneOf(id)}`} title={nameOf(id)}>
              {place === 0 && <span class="chip-lead">next</span>}
              <span class="chip-name cut">{nameOf(id)}</span>
            </li>
          ))}
          {next.length > CHIPS && <li class="chip of-wide">+{next.length - CHIPS}</li>}
          {next.length > 1 && <li class="chip of-narrow">+{next.length - 1}</li>}
        </ol>
      )}
      {heldIds.length > 0 && (
        <Button kind="chip held-chip" onClick={showFloorTab}>
          {heldIds.length} held
        </Button>
      )}
    </div>
  );
}

const ACTIONS = [
  { id: 'skip', icon: 'skip', line: '/floor skip', title: 'End this turn, go on with the next (Alt+S)' },
  { id: 'start', icon: 'play', line: '/floor start', title: 'Let the agents take turns' },
  { id: 'resume', icon: 'play', line: '/floor resume', title: 'Resume turns (Alt+P)' },
  { id: 'pause', icon: 'pause', line: '/floor pause', title: 'Grant no new turns (Alt+P)' },
  { id: 'stop', icon: 'stop', line: '/stop', title: 'Stop everything at once (Alt+X)' },
] as const;

function actionsNow(): readonly (typeof ACTIONS)[number][] {
  const floor = view.value;
  const skip = holder.value !== null;
  const resume = floor !== null && canResume(floor);
  const start = !skip && floor?.condition === 'resting' && !resume && questionOfReview() === null;
  const isShown = { skip, start, resume, pause: !resume, stop: skip || floor?.condition === 'open' };
  return ACTIONS.filter(({ id }) => isShown[id]);
}

function Actions(): JSX.Element {
  return (
    <div class="actions" role="group" aria-label="Floor actions">
      {questionOfReview() !== null && <Button onClick={showFloorTab}>Decide</Button>}
      {actionsNow().map(({ id, icon, line, title }) => (
        <Button
          key={id}
          icon={icon}
          kind={id === 'stop' ? 'stop' : ''}
          data-testid={id}
          disabled={connection.value === 'lost'}
          onClick={() => pressButton(line)}
          title={title}
        >
          {`${id.charAt(0).toUpperCase()}${id.slice(1)}`}
        </Button>
      ))}
    </div>
  );
}
