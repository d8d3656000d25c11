import { randomBytes } from 'node:crypto';
import { Routes } from 'discord.js';
import type { Logger } from 'pino';
import { z } from 'zod';
import type { ChannelId } from '../../turns/floor/settings.ts';
import type { Clock, Instant, Timers } from '../../lib/time.ts';
import type { FloorView } from '../../turns/view.ts';
import { cardOf } from '../delivery/card.ts';
import type { CardButton } from '../delivery/card.ts';
import { ChatError } from '../port.ts';
import type { Memory, Observatory } from '../port.ts';
import { body } from './body.ts';
import { BoundedMap } from '../../lib/bounded-map.ts';
import type { Calls } from './calls.ts';
import { isUnknownMessage, rejectionOf, wordsOf } from './errors.ts';
import { platformChannel } from './ids.ts';
import { createPace } from './pace.ts';
import type { Pace } from './pace.ts';
import type { SeenMessage } from './search.ts';

/** One message for each channel that shows the floor, with buttons, kept near the end. No error of it surfaces. */
export type Cards = {
  show(channel: ChannelId, view: FloorView): void;
  /** A message came after the card. */
  passed(channel: ChannelId): void;
  /** Whether a message of Conch's own is a card that was left behind. */
  isStray(channel: ChannelId, message: SeenMessage): boolean;
  stop(): Promise<void>;
};

export type CardsPorts = {
  readonly calls: Calls;
  readonly observatory: Pick<Observatory, 'agents'>;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly memory: Memory;
  readonly log: Logger;
  readonly enabled: boolean;
};

const GAP_MS = 2_000;
/** How many messages may stand below a card. */
const MESSAGES_BELOW = 10;
/** A deadline that moves by less is not worth an edit. */
const DEADLINE_MS = 10_000;
const ATTEMPTS = 3;
const RETRY_MS = 5_000;
const SUPPRESS_NOTIFICATIONS = 1 << 12;
const CARDS_KEPT = 1_000;

const STYLES = { plain: 2, good: 3, danger: 4 } as const;
const BUTTONS_A_ROW = 5;
const LABEL_LENGTH = 80;
const ID_LENGTH = 100;
const ID = /^conch:(-|\d{1,15}):(.+)$/s;

const messageSchema = z.object({ id: z.string() });
const rowSchema = z.object({ components: z.array(z.object({ custom_id: z.string().catch('') })) });

/** What a button is known by when it is pressed. */
export function customId(button: Pick<CardButton, 'line' | 'epoch'>): string {
  return `conch:${button.epoch ?? '-'}:${button.line}`.slice(0, ID_LENGTH);
}

/** The command line and the turn that a pressed button stands for; `null` when it is none of Conch's. */
export function readCustomId(text: string): { readonly line: string; readonly epoch: number | null } | null {
  const [, epoch = '', line = ''] = ID.exec(text) ?? [];
  return line === '' ? null : { line, epoch: epoch === '-' ? null : Number(epoch) };
}

type Drawing = { readonly text: string; readonly components: readonly object[]; readonly endsAt: Instant | null };

type State = {
  readonly pace: Pace;
  /** `null` when there is none. */
  id: string | null;
  view: FloorView | null;
  shown: Drawing | null;
  /** How many messages came after it. */
  below: number;
  /** It is to be posted anew at the end. */
  moves: boolean;
  attempts: number;
  /** Of the posting under way: a second attempt with it gives the first one's message. */
  nonce: string | null;
  /** Discord does not let the bot have one here. */
  refused: boolean;
};

/** The cards of one bot. A card outlives the program: its id is remembered. */
export function createCards(ports: CardsPorts): Cards {
  const states = new Map<ChannelId, State>();
  const posted = new BoundedMap<string, true>(CARDS_KEPT);
  const stateOf = (channel: ChannelId): State => {
    const known = states.get(channel) ?? begin(ports, channel, posted);
    states.set(channel, known);
    return known;
  };
  return {
    show(channel, view) {
      if (!ports.enabled) return;
      const state = stateOf(channel);
      const begins = view.condition === 'open' && state.view?.condition === 'resting';
      if (begins && state.below > 0) state.moves = true;
      state.view = view;
      state.attempts = 0;
      state.pace.kick();
    },
    passed(channel) {
      if (!ports.enabled) return;
      const state = stateOf(channel);
      state.below += 1;
      if (state.below <= MESSAGES_BELOW || state.view === null) return;
      state.moves = true;
      state.pace.kick();
    },
    isStray(channel, message) {
      const { id, nonce } = stateOf(channel);
      if (!ports.enabled || nonce !== null || message.id === id || posted.has(message.id)) return false;
      return (message.components ?? []).some((row) => {
        const parsed = rowSchema.safeParse(row);
        return parsed.success && parsed.data.components.some((each) => readCustomId(each.custom_id) !== null);
      });
    },
    async stop() {
      await Promise.all([...states.values()].map(({ pace }) => pace.stop()));
    },
  };
}

/** The card that a former run left is not the last message any more. */
function begin(ports: CardsPorts, channel: ChannelId, posted: BoundedMap<string, true>): State {
  const id = ports.memory.get(keyOf(channel)) ?? '';
  const state: State = {
    pace: createPace({ clock: ports.clock, timers: ports.timers, gapMs: GAP_MS }, () =>
      draw({ ports, channel, state, posted }),
    ),
    id: id === '' ? null : id,
    view: null,
    shown: null,
    below: id === '' ? 0 : 1,
    moves: false,
    attempts: 0,
    nonce: null,
    refused: false,
  };
  return state;
}

type Task = {
  readonly ports: CardsPorts;
  readonly channel: ChannelId;
  readonly state: State;
  readonly posted: BoundedMap<string, true>;
};

async function draw(task: Task): Promise<number | null> {
  const { ports, state } = task;
  if (state.view === null || state.refused) return null;
  const drawing = drawingOf(state.view, ports.observatory);
  if (!state.moves && state.id !== null && isShown(drawing, state.shown)) return null;
  try {
    if (state.moves) await takeAway(task);
    if (state.id === null || !(await change(task, drawing))) await post(task, drawing);
    state.shown = drawing;
    return null;
  } catch (error) {
    return failed(task, error);
  }
}

function failed({ ports, channel, state }: Task, error: unknown): number | null {
  const why = wordsOf(error);
  const mayStand = error instanceof ChatError && error.fault === 'unclear';
  if (!mayStand) state.nonce = null;
  const status = rejectionOf(error)?.status ?? 0;
  if (status === 401 || status === 403) {
    state.refused = true;
    ports.log.warn({ channel, why }, 'no floor card here');
    return null;
  }
  state.attempts += 1;
  ports.log.debug({ channel, why, attempt: state.attempts }, 'the floor card could not be drawn');
  if (state.attempts >= ATTEMPTS) return null;
  return (error instanceof ChatError ? error.retryAfterMs : null) ?? RETRY_MS;
}

async function takeAway({ ports, channel, state }: Task): Promise<void> {
  const { id } = state;
  if (id === null) return;
  try {
    const route = Routes.channelMessage(platformChannel(channel), id);
    await ports.calls.tell({ method: 'delete', route, channel, what: 'take the card away' });
  } catch (error) {
    if (!isUnknownMessage(error)) throw error;
  }
  state.id = null;
}

/** Whether the card was there to be changed. */
async function change({ ports, channel, state }: Task, drawing: Drawing): Promise<boolean> {
  const route = Routes.channelMessage(platformChannel(channel), state.id ?? '');
  const made = body(drawing.text, { components: drawing.components });
  try {
    await ports.calls.tell({ method: 'patch', route, channel, what: 'change the card', body: made });
    return true;
  } catch (error) {
    if (!isUnknownMessage(error)) throw error;
    state.id = null;
    return false;
  }
}

async function post({ ports, channel, state, posted }: Task, drawing: Drawing): Promise<void> {
  const route = Routes.channelMessages(platformChannel(channel));
  state.nonce ??= randomBytes(12).toString('hex');
  const { nonce } = state;
  const made = body(drawing.text, {
    components: drawing.components,
    flags: SUPPRESS_NOTIFICATIONS,
    nonce,
    enforce_nonce: true,
  });
  const call = { method: 'post', route, channel, what: 'post the card', body: made } as const;
  // Whatever comes from now on may already stand below it.
  Object.assign(state, { below: 0, moves: false });
  const { id } = await ports.calls.ask(call, messageSchema);
  posted.set(id, true);
  Object.assign(state, { id, nonce: null });
  await ports.memory.set(keyOf(channel), id);
}

function drawingOf(view: FloorView, observatory: Pick<Observatory, 'agents'>): Drawing {
  const names = new Map(observatory.agents().map(({ id, name }) => [id, name]));
  const card = cardOf(
    view,
    (agent) => names.get(agent) ?? agent,
    (endsAt) => `ends <t:${Math.ceil(endsAt / 1_000)}:R>`,
  );
  const buttons = card.buttons.slice(0, BUTTONS_A_ROW).map((button) => ({
    type: 2,
    style: STYLES[button.style],
    label: button.label.slice(0, LABEL_LENGTH),
    custom_id: customId(button),
  }));
  const components = buttons.length === 0 ? [] : [{ type: 1, components: buttons }];
  return { text: card.text, components, endsAt: card.endsAt };
}

function isShown(drawing: Drawing, shown: Drawing | null): boolean {
  if (shown === null || JSON.stringify(drawing.components) !== JSON.stringify(shown.components)) return false;
  if (drawing.text === shown.text) return true;
  if (drawing.endsAt === null || shown.endsAt === null) return false;
  const isSame = drawing.text.replace(TIME, '') === shown.text.replace(TIME, '');
  return isSame && Math.abs(drawing.endsAt - shown.endsAt) < DEADLINE_MS;
}

const TIME = /<t:\d+:R>/;

function keyOf(channel: ChannelId): string {
  return `card:${channel}`;
}
