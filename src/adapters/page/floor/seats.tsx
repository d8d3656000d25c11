import { signal } from '@preact/signals';
import type { JSX } from 'preact';
import type { Status } from '../../../turns/floor/floor.ts';
import type { FloorView } from '../../../turns/view.ts';
import { Avatar, toneOf } from '../avatar.tsx';
import { Icon, StatusShape } from '../icons.tsx';
import { drawerOpen } from '../layout.ts';
import { clockText, now } from '../now.ts';
import { pressButton, sendCommand } from '../sending.ts';
import { agentOf, agents, view } from '../state.ts';

type Seat = FloorView['seats'][number];

const STATUS_WORDS: Readonly<Record<Status, string>> = {
  OFFLINE: 'offline',
  IDLE: 'idle',
  QUEUED: 'queued',
  ACTIVE: 'active',
  WAITING: 'waiting',
};

/** The agent whose actions are open. */
const unfolded = signal<string | null>(null);

/** Every seat at this floor with its state, and what an operator can do about it. */
export function Seats(): JSX.Element {
  const seats = view.value?.seats ?? [];
  return (
    <section class="block" aria-labelledby="seats-title">
      <h2 id="seats-title">Seats</h2>
      {seats.length === 0 && <p class="faint">No agent sits here yet.</p>}
      <ul class="seats">
        {seats.map((seat) => (
          <SeatRow key={seat.agent} seat={seat} />
        ))}
      </ul>
      <Unseated />
    </section>
  );
}

function SeatRow({ seat }: { readonly seat: Seat }): JSX.Element {
  const agent = agentOf(seat.agent);
  const open = unfolded.value === seat.agent;
  return (
    <li
      class={`seat ${toneOf(seat.agent)}`}
      data-testid={`seat-${seat.agent}`}
      data-status={seat.status}
      data-disabled={seat.disabled}
    >
      <button
        type="button"
        class="seat-row"
        aria-expanded={open}
        onClick={() => (unfolded.value = open ? null : seat.agent)}
      >
        <Avatar id={agent.id} name={agent.name} avatar={agent.avatar} />
        <span class="seat-name">
          <span title={agent.name}>{agent.name}</span>
          <SeatNote seat={seat} />
        </span>
        <span class={`status is-${seat.status.toLowerCase()}`}>
          <StatusShape status={seat.status} />
          {STATUS_WORDS[seat.status]}
        </span>
        <Icon name="more" />
      </button>
      {open && <SeatActions seat={seat} />}
    </li>
  );
}

function SeatNote({ seat }: { readonly seat: Seat }): JSX.Element | null {
  const place = (view.value?.next ?? []).indexOf(seat.agent);
  if (seat.disabled) return <span class="faint">disabled</span>;
  if (seat.status === 'OFFLINE') return <span class="faint">cannot take a turn</span>;
  if (seat.waitUntil !== null) return <span class="faint">gives up in {clockText(seat.waitUntil - now.value)}</span>;
  if (seat.status === 'QUEUED' && place >= 0)
    return <span class="faint">{PLACES[place] ?? `number ${place + 1}`}</span>;
  return null;
}

const PLACES = ['next', 'second', 'third', 'fourth'];

function SeatActions({ seat }: { readonly seat: Seat }): JSX.Element {
  const { agent, status, disabled } = seat;
  const seated = status === 'QUEUED' || status === 'ACTIVE' || status === 'WAITING';
  const { description } = agentOf(agent);
  return (
    <div class="seat-actions">
      {description !== '' && <p class="faint">{description}</p>}
      <div class="buttons">
        {status !== 'ACTIVE' && <Act line={`/floor grant ${agent}`} label="Give the floor" />}
        {(status === 'ACTIVE' || status === 'WAITING') && <Act line={`/floor skip ${agent}`} label="Skip" />}
        {seated ? (
          <Act line={`/floor remove ${agent}`} label="Remove" />
        ) : (
          <Act line={`/floor add ${agent}`} label="Add" />
        )}
        {disabled ? (
          <Act line={`/agent enable ${agent}`} label="Enable" />
        ) : (
          <Act line={`/agent disable ${agent}`} label="Disable" />
        )}
        <Act line={`/agent restart ${agent}`} label="Restart" />
        {status === 'OFFLINE' && <AskWhy line={`/agent status ${agent}`} />}
      </div>
    </div>
  );
}

function Act(props: { readonly line: string; readonly label: string }): JSX.Element {
  return (
    <button type="button" class="small-button" title={props.line} onClick={() => pressButton(props.line)}>
      {props.label}
    </button>
  );
}

/** Asks why somebody is not there; the answer stands in the conversation. */
export function AskWhy(props: { readonly line: string }): JSX.Element {
  const act = (): void => {
    drawerOpen.value = false;
    sendCommand(props.line, { typed: true });
  };
  return (
    <button type="button" class="small-button" title={props.line} onClick={act}>
      Why?
    </button>
  );
}

/** Agents of this Conch that have no seat at this floor. */
function Unseated(): JSX.Element | null {
  const seated = new Set((view.value?.seats ?? []).map((seat) => seat.agent));
  const others = agents.value.filter((agent) => !seated.has(agent.id));
  if (others.length === 0) return null;
  return (
    <div class="buttons unseated">
      {others.map((agent) => (
        <button key={agent.id} type="button" class="small-button" onClick={() => pressButton(`/floor add ${agent.id}`)}>
          <Icon name="plus" />
          Add {agent.name}
        </button>
      ))}
    </div>
  );
}
