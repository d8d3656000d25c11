import { signal, useSignalEffect } from '@preact/signals';
import { useRef, useState } from 'preact/hooks';
import type { JSX } from 'preact';
import { dollars } from '../../../turns/crew-view.ts';
import type { CrewButton, CrewView, CrewWorkerView, TicketState, TicketView } from '../../../turns/crew-view.ts';
import { forTurn } from '../../../turns/drawn-for.ts';
import { pagePart } from '../access.tsx';
import { durationText, exactTime, inLocalTime, timeOfDay, timeToTheSecond } from '../now.ts';
import { Block, Button, Select, Time, Toasts } from '../parts.tsx';
import { ask, sendCommand } from '../sending.ts';
import { channel, channels, drawerOpen, openView, toggleView } from '../state.ts';
import '../audit/audit.css';
import './crew.css';

/**
 * The crew of the open channel. `reading`: the server has not answered yet. `none`: the channel has no open crew.
 * `lost`: the server did not answer, or refused.
 */
const crew = signal<CrewView | 'reading' | 'none' | 'lost'>('reading');
/** The time on the server's clock at its newest answer about the crew. */
const asOf = signal(0);
const chosen = signal<TicketState>('in work');
/** How many tickets of each state the dashboard requests from the server. */
const most = signal(20);
/** The worker whose log is shown; empty for all. */
const logOf = signal('');

const READ_MS = 1_000;
/** How many more tickets of each state the button "Show more" requests. */
const FURTHER = 100;
const MOST_DRAWN = 500;

type Answer = { readonly now: number; readonly crew: CrewView | null };

/** The dashboard of the open channel's crew: problems, what waits for people, workers, tickets and the log. */
export function CrewDashboard(): JSX.Element {
  useSignalEffect(() => reading(channel.value, most.value).stop);
  const shown = crew.value;
  return (
    <main class="audit crew" aria-labelledby="crew-title">
      <div class="audit-page">
        <header class="audit-head">
          <h2 id="crew-title">{typeof shown === 'string' ? 'Crew' : `Crew ${shown.id}`}</h2>
          {typeof shown !== 'string' && <State {...shown} />}
          <span class="spring" />
          {typeof shown !== 'string' && shown.buttons.map((button) => <Act key={button.line} {...{ button, shown }} />)}
          <Button icon="close" kind="small-button" onClick={() => (openView.value = null)}>
            Back
          </Button>
        </header>
        {typeof shown === 'string' ? <p role="status">{UNSHOWN[shown]}</p> : <Parts {...shown} />}
        <Toasts />
      </div>
    </main>
  );
}

/**
 * The crew in the panel. Shows the workers that ask people. In the thread of a ticket in work, shows the ticket's
 * worker.
 */
export function CrewBlock(): JSX.Element {
  useSignalEffect(() => reading(channel.value, 0).stop);
  const shown = crew.value;
  if (typeof shown === 'string')
    return (
      <Block id="crew" title="Crew">
        <p class="faint">{UNSHOWN[shown]}</p>
      </Block>
    );
  const here = shown.workers.filter(({ ticket }) => ticket?.thread === channel.value);
  const rows = here.length > 0 ? here : shown.workers.filter(({ asksPeople }) => asksPeople);
  return (
    <Block id="crew" title={`Crew ${shown.id}`} data-testid="crew-block">
      {rows.length === 0 && <p class="faint">Nothing waits for you.</p>}
      <ul class="crew-workers is-narrow">
        {rows.map((worker) => (
          <Row key={worker.name} worker={worker} shown={shown} />
        ))}
      </ul>
      <Button kind="small-button" onClick={() => toggleView('crew')}>
        Show the whole crew
      </Button>
    </Block>
  );
}

const UNSHOWN = {
  reading: 'Reading…',
  none: 'This crew is not open. /crew ps says why.',
  lost: 'Conch is unreachable. Retrying…',
} as const;

let readOf: string | null = null;

/** Reads the crew of a channel into `crew`, at once and again 1 s after each answer, while the page is visible. */
function reading(where: string | null, tickets: number): { readonly stop: () => void } {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isOver = false;
  let lastText = '';
  if (readOf !== where) crew.value = 'reading';
  readOf = where;
  const readCrew = async (): Promise<void> => {
    const query = new URLSearchParams({ channel: where ?? '', most: `${tickets}` });
    const body = await fetch(`/crew?${query}`, { headers: { 'Conch-Page': pagePart() } })
      .then((answer) => (answer.ok ? (answer.json() as Promise<Answer>) : null))
      .catch(() => null);
    if (isOver) return;
    const text = JSON.stringify(body?.crew);
    asOf.value = body?.now ?? asOf.peek();
    if (text === lastText && body !== null) return;
    lastText = text;
    crew.value = body === null ? 'lost' : (body.crew ?? 'none');
  };
  const again = (): void => {
    const next = (): void => {
      if (!isOver) timer = setTimeout(again, READ_MS);
    };
    if (document.visibilityState === 'hidden') next();
    else void readCrew().finally(next);
  };
  again();
  return {
    stop: () => {
      isOver = true;
      clearTimeout(timer);
    },
  };
}

function State({ running, paused }: CrewView): JSX.Element {
  const words = !running ? 'stopped' : paused === null ? 'works' : `waits until ${timeOfDay(paused.until)}`;
  return <span class={`badge${running && paused === null ? '' : ' ended-unknown'}`}>{words}</span>;
}

function Parts(shown: CrewView): JSX.Element {
  const { workers, problems, paused } = shown;
  const asking = workers.filter(({ asksPeople }) => asksPeople);
  const others = workers.filter(({ asksPeople, ticket }) => !asksPeople && ticket !== null);
  const idle = workers.filter(({ ticket }) => ticket === null);
  return (
    <>
      {[
        ...problems,
        ...(paused === null ? [] : [`No step starts until ${timeOfDay(paused.until)}: ${paused.why}`]),
      ].map((words) => (
        <p key={words} class="crew-problem">
          <span aria-hidden="true">⚠</span> {words}
        </p>
      ))}
      <Workers id="asking" title="Waits for people" workers={asking} shown={shown} none="Nothing waits for you." />
      <Numbers {...shown} />
      <Workers id="at-work" title="At work" workers={others} shown={shown} none="No worker has a ticket." />
      {idle.length > 0 && (
        <p class="faint crew-idle" data-testid="idle">
          ○ {idle.length} idle: {idle.map(({ name }) => name).join(', ')}
        </p>
      )}
      <Tickets shown={shown} />
      <Log {...shown} />
    </>
  );
}

const COUNT = new Intl.NumberFormat(undefined, { notation: 'compact', maximumFractionDigits: 1 });

function Numbers({ workers, groups, steps, tokens, costMicros, unpriced, tests, merges, base }: CrewView): JSX.Element {
  const busy = workers.filter(({ ticket }) => ticket !== null).length;
  const ready = groups.find(({ state }) => state === 'ready')?.count ?? 0;
  const none = tests.none === 0 ? '' : `, ${tests.none} not found`;
  const rows: readonly (readonly [name: string, value: string, beside: string])[] = [
    ['Workers', `${busy}`, `of ${workers.length} have a ticket`],
    ['Merged', `${merges.merged}`, `abandoned: ${merges.dropped}, conflicts: ${merges.conflicts}`],
    ['Ready', `${ready}`, 'can start'],
    ['Tests', `${tests.green}`, `green, ${tests.flaky} flaky, ${tests.red} red${none}`],
    ['Main', base ?? '–', base === null ? 'not tested yet' : base === 'accepted' ? 'red, accepted' : 'tests'],
    [
      'Spent',
      dollars(costMicros),
      `${unpriced ? 'and more, prices unknown · ' : ''}${COUNT.format(steps)} steps, ${COUNT.format(tokens)} tokens`,
    ],
  ];
  return (
    <dl class="crew-numbers" data-testid="crew-numbers">
      {rows.map(([name, value, beside]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            <b>{value}</b>
            <span class="faint">{beside}</span>
          </dd>
        </div>
      ))}
    </dl>
  );
}

type WorkersProps = {
  readonly id: string;
  readonly title: string;
  readonly workers: readonly CrewWorkerView[];
  readonly shown: CrewView;
  readonly none: string;
};

/** A list of workers. While the pointer or the focus is in it, the rows keep their order, and new rows come last. */
function Workers({ id, title, workers, shown, none }: WorkersProps): JSX.Element {
  const heldOrder = useRef<readonly string[] | null>(null);
  const hold = (): void => {
    heldOrder.current ??= workers.map(({ name }) => name);
  };
  const release = ({ currentTarget }: { readonly currentTarget: HTMLElement }): void => {
    if (!currentTarget.matches(':hover') && !currentTarget.contains(document.activeElement)) heldOrder.current = null;
  };
  const order = heldOrder.current;
  const placed = (name: string): number =>
    order === null || !order.includes(name) ? workers.length : order.indexOf(name);
  const rows = order === null ? workers : workers.toSorted((a, b) => placed(a.name) - placed(b.name));
  return (
    <section aria-labelledby={`${id}-title`} data-testid={id}>
      <h3 id={`${id}-title`}>
        {title}
        {workers.length > 0 && ` · ${workers.length}`}
      </h3>
      {workers.length === 0 && <p class="faint">{none}</p>}
      <ul class="crew-workers" onPointerEnter={hold} onFocusIn={hold} onPointerLeave={release} onFocusOut={release}>
        {rows.map((worker) => (
          <Row key={worker.name} worker={worker} shown={shown} />
        ))}
      </ul>
    </section>
  );
}

function Row({ worker, shown }: { readonly worker: CrewWorkerView; readonly shown: CrewView }): JSX.Element {
  const { name, symbol, status, ticket, steps, maxSteps, tokens, costMicros, asksPeople, buttons, toolSteps, work } =
    worker;
  return (
    <li class={`crew-row is-${status}${asksPeople ? ' asks' : ''}`} data-testid="worker" data-worker={name}>
      <p class="crew-who">
        <b>
          <span aria-hidden="true">{symbol}</span> {name}
        </b>{' '}
        <span class="faint">{status}</span>
      </p>
      <p class="crew-ticket">
        <b>{ticket?.id}</b> {ticket?.title}
      </p>
      <p class="crew-use faint">
        step {steps} of {maxSteps}
        {toolSteps !== null && `, ${toolSteps} tool steps in it`} · {COUNT.format(tokens)} tokens ·{' '}
        {dollars(costMicros)}
      </p>
      {work !== '' && <p class="crew-work faint">{work}</p>}
      <Waits {...worker} />
      <div class="crew-acts">
        {buttons.map((button) => (
          <Act key={button.line} {...{ button, shown, worker: name }} />
        ))}
        {ticket !== null && <OpenThread {...worker} thread={ticket.thread} />}
      </div>
    </li>
  );
}

function Waits({ waits, since, asksPeople, landsAt }: CrewWorkerView): JSX.Element | null {
  if (waits === '') return null;
  if (landsAt !== null)
    return (
      <p class="crew-waits">
        is merged in <b>{ageText(landsAt - asOf.value)}</b> unless a person holds it
      </p>
    );
  return (
    <p class="crew-waits">
      {asksPeople && <span aria-hidden="true">✋ </span>}
      {inLocalTime(waits, asOf.value)}
      {since !== null && (
        <span class="faint" title={`since ${exactTime(since)}`}>
          {' '}
          · {ageText(asOf.value - since)}
        </span>
      )}
    </p>
  );
}

function ageText(ms: number): string {
  if (ms < 60_000) return durationText(Math.max(0, ms));
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}

/**
 * A button that opens the thread of a worker's ticket. Draws nothing while that thread is shown, or when the list of
 * channels lacks it.
 */
function OpenThread({ name, asksPeople, status, isQuestion, thread }: ThreadProps): JSX.Element | null {
  const isOpen = channel.value === thread && openView.value !== 'crew';
  if (isOpen || !channels.value.some(({ id }) => id === thread)) return null;
  const label = asksPeople && !isQuestion && status === 'working' ? 'Answer in thread' : 'Open thread';
  return <ThreadButton {...{ label, thread, of: name }} />;
}

type ThreadButtonProps = { readonly label: string; readonly of: string; readonly thread: string };

function ThreadButton({ label, of, thread }: ThreadButtonProps): JSX.Element {
  const open = (): void => {
    openView.value = null;
    drawerOpen.value = false;
    ask({ type: 'open', channel: thread });
  };
  return (
    <Button kind="small-button" aria-label={`${label} of ${of}`} onClick={open}>
      {label}
    </Button>
  );
}

type ThreadProps = CrewWorkerView & { readonly thread: string };

type ActProps = { readonly button: CrewButton; readonly shown: CrewView; readonly worker?: string };

/** A button that runs a command. A dangerous button of a worker asks for confirmation first. */
function Act({ button: { label, line, what: purpose, style, mark }, shown, worker }: ActProps): JSX.Element {
  const [isConfirming, setConfirming] = useState(false);
  const give = (): void => {
    setConfirming(false);
    sendCommand(line, { channel: shown.channel, drawnFor: forTurn(shown.store, mark) });
  };
  const name = worker === undefined ? label : `${label} ${worker}`;
  const title = `${line}: ${purpose}`;
  const kind = `small-button${style === 'danger' ? ' stop' : style === 'good' ? ' allow' : ''}`;
  if (worker === undefined || style !== 'danger')
    return <Button {...{ kind, title, 'aria-label': name, onClick: give }}>{label}</Button>;
  if (!isConfirming)
    return (
      <Button
        {...{ kind: 'small-button', title, 'aria-label': `${label}… ${worker}`, onClick: () => setConfirming(true) }}
      >
        {label}…
      </Button>
    );
  return (
    <span class="crew-sure" role="group" aria-label={`${name}?`}>
      <span class="faint">{`${label} ${worker}, ${purpose}?`}</span>
      <Button {...{ kind, 'aria-label': name, onClick: give }}>{label}</Button>
      <Button kind="small-button" onClick={() => setConfirming(false)}>
        Cancel
      </Button>
    </span>
  );
}

function Tickets({ shown }: { readonly shown: CrewView }): JSX.Element {
  const { groups } = shown;
  const group = groups.find(({ state }) => state === chosen.value);
  const tickets = group?.tickets ?? [];
  const count = group?.count ?? 0;
  return (
    <section aria-labelledby="tickets-title" data-testid="tickets">
      <h3 id="tickets-title">Tickets</h3>
      <div class="crew-states" role="group" aria-label="Tickets by state">
        {groups.map(({ state, count: each }) => (
          <Button
            key={state}
            kind="small-button"
            aria-pressed={state === chosen.value}
            onClick={() => {
              chosen.value = state;
              most.value = 20;
            }}
          >
            {state} <b>{each}</b>
          </Button>
        ))}
      </div>
      {count === 0 && <p class="faint">No ticket is in this state.</p>}
      <ul class="crew-tickets">
        {tickets.map((ticket) => (
          <Ticket key={ticket.id} {...{ ticket, shown }} />
        ))}
      </ul>
      {count > 0 && chosen.value === 'waiting for others' && (
        <p class="faint">They start when the tickets that they depend on are merged.</p>
      )}
      {count > tickets.length && tickets.length > 0 && (
        <p class="audit-foot">
          <span class="faint">
            {tickets.length} of {count} shown.
          </span>
          {most.value < MOST_DRAWN && (
            <Button kind="small-button" onClick={() => (most.value = Math.min(MOST_DRAWN, most.value + FURTHER))}>
              Show more
            </Button>
          )}
        </p>
      )}
    </section>
  );
}

function Ticket({ ticket, shown }: { readonly ticket: TicketView; readonly shown: CrewView }): JSX.Element {
  const { id, words, at, thread, buttons = [] } = ticket;
  return (
    <li>
      <b>{id}</b>
      <span>{words}</span>
      {at !== null && <span class="faint">{exactTime(at)}</span>}
      {thread !== undefined && <ThreadButton label="Thread" {...{ thread, of: id }} />}
      {buttons.map((button) => (
        <Act key={button.line} {...{ button, shown }} />
      ))}
    </li>
  );
}

function Log({ log, workers }: CrewView): JSX.Element {
  const of = workers.some(({ name }) => name === logOf.value) ? logOf.value : '';
  const rows = log.filter(({ worker }) => of === '' || worker === of).toReversed();
  return (
    <section aria-labelledby="log-title" data-testid="crew-log">
      <h3 id="log-title">Log</h3>
      <label class="filter crew-filter">
        <span>Worker</span>
        <Select
          value={of}
          options={[['', 'all'], ...workers.map(({ name }) => [name, name] as const)]}
          onChange={(event) => (logOf.value = event.currentTarget.value)}
        />
      </label>
      {rows.length === 0 && <p class="faint">Nothing happened lately.</p>}
      <ol class="crew-log">
        {rows.map(({ at, worker, text }, place) => (
          <li key={`${at} ${rows.length - place}`}>
            <Time at={at} shown={timeToTheSecond} />
            <b>{worker}</b>
            <span>{inLocalTime(text, at)}</span>
          </li>
        ))}
      </ol>
    </section>
  );
}
