import { signal } from '@preact/signals';
import type { JSX } from 'preact';
import type { Status } from '../../../turns/floor/floor.ts';
import type { FloorView } from '../../../turns/view.ts';
import { Avatar, toneOf } from '../parts.tsx';
import { Icon, StatusShape } from '../icons.tsx';
import { drawerOpen, agentOf, agents, view, channel, messages } from '../state.ts';
import { clockText, now } from '../now.ts';
import { pressButton, sendCommand } from '../sending.ts';
import { askedId } from '../../../turns/floor/seats.ts';
import { stopOf } from '../../delivery/card.ts';
import { showOpen } from '../frame/attention.tsx';
import { INTERRUPT_MODES, MODES, ORDERS, POLICIES } from '../../../turns/floor/policies.ts';

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

/** The background runs of this channel, with their state and buttons. */
export function Asides(): JSX.Element | null {
  const { asides = [] } = view.value ?? {};
  if (asides.length === 0) return null;
  return (
    <section class="block" aria-labelledby="asides-title">
      <h2 id="asides-title">Background runs</h2>
      <ul class="asides" data-testid="asides">
        {asides.map((aside) => (
          <AsideRow key={aside.agent} aside={aside} />
        ))}
      </ul>
    </section>
  );
}

type Aside = Parameters<typeof stopOf>[0];

function AsideRow({ aside }: { readonly aside: Aside }): JSX.Element {
  const { agent, question } = aside;
  return (
    <li class={toneOf(agent)} data-testid={`aside-${agent}`}>
      <p>
        <span class="speaker">{agentOf(agent).name}</span> {standsAt(aside)}
      </p>
      <div class="buttons">
        {question !== undefined && (
          <button type="button" class="small-button" onClick={() => showOpen(channel.value ?? '', askedId(question))}>
            Answer
          </button>
        )}
        <button
          type="button"
          class="small-button"
          title={`/run status ${agent}+`}
          onClick={() => {
            drawerOpen.value = false;
            sendCommand(`/run status ${agent}+`, { typed: true });
          }}
        >
          Status
        </button>
        {stopOf(aside, view.value?.store ?? '', (id) => agentOf(id).name).map(({ label, line, drawnFor }) => (
          <button
            key={line}
            type="button"
            class="small-button"
            title={line}
            aria-label={label}
            onClick={() => sendCommand(line, { drawnFor })}
          >
            {label.split(' ')[0]}
          </button>
        ))}
      </div>
    </li>
  );
}

function standsAt({ question, failed }: Aside): string {
  if (failed === true) return 'failed';
  if (question === undefined) return 'works';
  return `waits for an answer (${question.question})`;
}

/** What people wrote and no agent has been given yet. */
export function HeldMessages(): JSX.Element | null {
  const held = view.value?.held ?? [];
  return (
    <section
      class="block"
      data-testid="held"
      data-count={held.length}
      hidden={held.length === 0}
      aria-labelledby="held-title"
    >
      <h2 id="held-title">
        Held <span class="count">{held.length}</span>
      </h2>
      <ol class="held">
        {held.map((id) => (
          <li key={id}>{textOf(id)}</li>
        ))}
      </ol>
    </section>
  );
}

function textOf(id: string): string {
  const message = messages.value.find((one) => one.id === id);
  return message === undefined ? `message ${id}` : message.text.slice(0, 140);
}

/** How this floor works, and the rest of what operators can do. */
export function Controls(): JSX.Element {
  const floor = view.value;
  const mode = floor?.mode ?? 'inject';
  const order = floor?.order ?? 'round-robin';
  return (
    <section class="block" aria-labelledby="controls-title">
      <h2 id="controls-title">How it works here</h2>
      <Choice
        label="When a person writes mid-turn"
        value={mode}
        values={INTERRUPT_MODES}
        summary={MODES[mode].summary}
        choose={(value) => pressButton(`/floor mode ${value}`)}
      />
      <Choice
        label="Who is next"
        value={order}
        values={ORDERS}
        summary={POLICIES[order].summary}
        choose={(value) => pressButton(`/floor order ${value}`)}
      />
      <div class="buttons">
        {floor?.holder != null && (
          <button type="button" class="small-button" onClick={() => pressButton('/floor extend 60')}>
            <Icon name="clock" />
            One minute more
          </button>
        )}
        <button type="button" class="small-button" onClick={() => pressButton('/floor start')}>
          <Icon name="play" />
          Start an exchange
        </button>
        <button type="button" class="small-button" onClick={() => sendCommand('/floor status', { typed: true })}>
          Status
        </button>
        <button type="button" class="small-button" onClick={() => sendCommand('/help', { typed: true })}>
          All commands
        </button>
      </div>
    </section>
  );
}

function Choice(props: {
  readonly label: string;
  readonly value: string;
  readonly values: readonly string[];
  readonly summary: string;
  readonly choose: (value: string) => void;
}): JSX.Element {
  const id = `choice-${props.label.toLowerCase().replaceAll(' ', '-')}`;
  return (
    <div class="field">
      <label for={id}>{props.label}</label>
      <select id={id} value={props.value} onChange={(event) => props.choose(event.currentTarget.value)}>
        {props.values.map((value) => (
          <option key={value} value={value}>
            {value}
          </option>
        ))}
      </select>
      <p class="faint">{props.summary}</p>
    </div>
  );
}
