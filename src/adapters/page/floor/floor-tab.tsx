import { signal } from '@preact/signals';
import type { JSX } from 'preact';
import { requestPostId } from '../../../turns/floor/seats.ts';
import { INTERRUPT_MODES, MODES, ORDERS, POLICIES } from '../../../turns/floor/policies.ts';
import type { FloorView } from '../../../turns/view.ts';
import { stopOf } from '../../delivery/card.ts';
import { showOpen } from '../frame/attention.tsx';
import { Icon, StatusShape } from '../icons.tsx';
import type { IconName } from '../icons.tsx';
import { clockText, now } from '../now.ts';
import { useLaterViews } from '../later.tsx';
import { AskInConversation, Avatar, Block, Button, Select, LineButton, toneOf } from '../parts.tsx';
import { pressButton } from '../sending.ts';
import { agentOf, agents, channel, crewAsks, messages, nameOf, deliveryPreview, review, view } from '../state.ts';

/**
 * The floor in full: its review, crew, seats, background runs and held messages, how it works, and what operators can
 * do.
 */
export function FloorTab(): JSX.Element {
  return (
    <>
      {review.value !== null && <Later of="ReviewBlock" />}
      {crewAsks.value !== undefined && <Later of="CrewBlock" />}
      <Seats />
      <BackgroundRuns />
      <HeldMessages />
      <Controls />
    </>
  );
}

function Later({ of }: { readonly of: 'ReviewBlock' | 'CrewBlock' }): JSX.Element | null {
  const views = useLaterViews();
  const View = views === null || views === 'failed' ? null : views[of];
  return View === null ? null : <View />;
}

type Seat = FloorView['seats'][number];

/** Id of the agent whose actions are shown. */
const unfolded = signal<string | null>(null);

function Seats(): JSX.Element {
  const seats = view.value?.seats ?? [];
  const addableAgents = agents.value.filter(
    ({ id, fixed }) => fixed !== true && seats.every(({ agent }) => agent !== id),
  );
  return (
    <Block id="seats" title="Seats">
      {seats.length === 0 && <p class="faint">No agent sits here yet.</p>}
      <ul class="seats">
        {seats.map((seat) => (
          <SeatRow key={seat.agent} seat={seat} />
        ))}
      </ul>
      {addableAgents.length > 0 && (
        <div class="buttons unseated">
          {addableAgents.map(({ id, name }) => (
            <LineButton key={id} line={`/floor add ${id}`} icon="plus">
              Add {name}
            </LineButton>
          ))}
        </div>
      )}
    </Block>
  );
}

function SeatRow({ seat }: { readonly seat: Seat }): JSX.Element {
  const { agent: id, status, disabled } = seat;
  const agent = agentOf(id);
  const open = unfolded.value === id;
  const note = seatNote(seat);
  return (
    <li class={`seat ${toneOf(id)}`} data-testid={`seat-${id}`} data-status={status} data-disabled={disabled}>
      <Button kind="seat-row" aria-expanded={open} onClick={() => (unfolded.value = open ? null : id)}>
        <Avatar {...agent} />
        <span class="seat-name">
          <span title={agent.name}>{agent.name}</span>
          {note !== null && <span class="faint">{note}</span>}
        </span>
        <span class={`status is-${status.toLowerCase()}`}>
          <StatusShape status={status} />
          {status.toLowerCase()}
        </span>
        <Icon name="more" />
      </Button>
      {open && <SeatActions {...seat} />}
    </li>
  );
}

function seatNote({ agent, status, disabled, waitUntil }: Seat): string | null {
  if (disabled) return 'disabled';
  if (status === 'OFFLINE') return 'cannot take a turn';
  if (waitUntil !== null) return `times out in ${clockText(waitUntil - now.value)}`;
  const place = (view.value?.next ?? []).indexOf(agent);
  return status === 'QUEUED' && place >= 0 ? (PLACES[place] ?? `number ${place + 1}`) : null;
}

const PLACES = ['next', 'second', 'third', 'fourth'];

const ICONS_OF: Readonly<Record<string, { readonly icon: IconName }>> = {
  extend: { icon: 'clock' },
  start: { icon: 'play' },
};

/** Returns the buttons that the delivery preview offers for an agent; for the floor if the id is empty. */
function offered(of: string): readonly JSX.Element[] {
  return (deliveryPreview.value?.controls[of] ?? []).map(([line, label]) => (
    <LineButton key={line} line={line} {...ICONS_OF[line.split(' ')[1] ?? '']}>
      {label}
    </LineButton>
  ));
}

function SeatActions({ agent, status }: Seat): JSX.Element {
  const { description } = agentOf(agent);
  return (
    <div class="seat-actions">
      {description !== '' && <p class="faint">{description}</p>}
      <div class="buttons">
        {offered(agent)}
        <LineButton line={`/agent restart ${agent}`}>Restart</LineButton>
        {status === 'OFFLINE' && <AskInConversation line={`/agent status ${agent}`}>Why?</AskInConversation>}
      </div>
    </div>
  );
}

function BackgroundRuns(): JSX.Element | null {
  const { asides: backgroundRuns = [] } = view.value ?? {};
  if (backgroundRuns.length === 0) return null;
  return (
    <Block id="asides" title="Background runs">
      <ul class="asides" data-testid="asides">
        {backgroundRuns.map((run) => (
          <BackgroundRun key={run.agent} {...run} />
        ))}
      </ul>
    </Block>
  );
}

type BackgroundRun = Parameters<typeof stopOf>[0];

function BackgroundRun(run: BackgroundRun): JSX.Element {
  const { agent, question, failed } = run;
  const state = question === undefined ? 'is working' : `waits for an answer (${question.question})`;
  return (
    <li class={toneOf(agent)} data-testid={`aside-${agent}`}>
      <p>
        <span class="speaker">{nameOf(agent)}</span> {failed === true ? 'failed' : state}
      </p>
      <div class="buttons">
        {question !== undefined && (
          <Button kind="small-button" onClick={() => showOpen(channel.value ?? '', requestPostId(question))}>
            Answer
          </Button>
        )}
        <AskInConversation line={`/run status ${agent}+`}>Status</AskInConversation>
        {stopOf(run, view.value?.store ?? '', nameOf).map(({ label, line, drawnFor }) => (
          <LineButton key={line} line={line} drawnFor={drawnFor} aria-label={label}>
            {label.split(' ')[0]}
          </LineButton>
        ))}
      </div>
    </li>
  );
}

function HeldMessages(): JSX.Element {
  const heldIds = view.value?.held ?? [];
  const title = (
    <>
      Held <span class="count">{heldIds.length}</span>
    </>
  );
  return (
    <Block id="held" title={title} data-testid="held" data-count={heldIds.length} hidden={heldIds.length === 0}>
      <ol class="held">
        {heldIds.map((id) => (
          <li key={id}>{messages.value.find((message) => message.id === id)?.text.slice(0, 140) ?? `message ${id}`}</li>
        ))}
      </ol>
    </Block>
  );
}

function Controls(): JSX.Element {
  const { mode = 'inject', order = 'round-robin' } = view.value ?? {};
  const settings = [
    ['mode', 'When a person writes mid-turn', mode, INTERRUPT_MODES, MODES[mode].summary],
    ['order', 'Who is next', order, ORDERS, POLICIES[order].summary],
  ] as const;
  return (
    <Block id="controls" title="How it works here">
      {settings.map(([id, label, value, values, summary]) => (
        <div key={id} class="field">
          <label for={`choice-${id}`}>{label}</label>
          <Select
            id={`choice-${id}`}
            value={value}
            options={values.map((each) => [each, each])}
            onChange={({ currentTarget }) => {
              const chosen = currentTarget.value;
              // Shows the current setting until the floor has the chosen one.
              currentTarget.value = value;
              pressButton(`/floor ${id} ${chosen}`);
            }}
          />
          <p class="faint">{summary}</p>
        </div>
      ))}
      <div class="buttons">
        {offered('')}
        <AskInConversation line="/floor status">Status</AskInConversation>
        <AskInConversation line="/help">All commands</AskInConversation>
      </div>
    </Block>
  );
}
