import type { Logger } from 'pino';
import { z } from 'zod';
import type { AgentId, ChannelId } from '../../turns/floor/settings.ts';
import type { Clock, Instant, Timer, Timers } from '../../lib/time.ts';
import type { FloorView } from '../../turns/view.ts';
import { cardOf } from '../delivery/card.ts';
import type { CardButton } from '../delivery/card.ts';
import { ChatError } from '../port.ts';
import type { Memory } from '../port.ts';
import { withoutBroadcasts } from './markdown.ts';
import { isGone } from './voice.ts';
import type { Message, Voice } from './voice.ts';
import type { Budget } from './pace.ts';
import { escaped } from './text.ts';

/** The `action_id` of the button that opens the settings. */
export const SETTINGS_ACTION = 'conch:settings';

/** What a button stands for: a command line, and the turn it was drawn for. */
export type ButtonValue = { readonly line: string; readonly epoch: number | null };

/** A button's value, as Slack carries it. */
export function buttonValue({ line, epoch }: Pick<CardButton, 'line' | 'epoch'>): string {
  return JSON.stringify({ line, epoch });
}

/** Reads a button's value back; `null` when it is not one of ours. */
export function readButtonValue(text: string): ButtonValue | null {
  try {
    return valueSchema.safeParse(JSON.parse(text)).data ?? null;
  } catch {
    return null;
  }
}

const valueSchema = z.object({ line: z.string().startsWith('/').max(500), epoch: z.int().nullable().default(null) });

/** A card as blocks, and in one line for notifications. */
export function cardMessage(view: FloorView, nameOf: (agent: AgentId) => string, now: Instant): Message {
  const { text, buttons } = cardOf(view, nameOf, (endsAt) => roughlyLeft(endsAt - now));
  const shown = escaped(withoutBroadcasts(text)).slice(0, SECTION_LIMIT);
  return {
    speaker: null,
    text,
    mark: { event_type: 'conch_card', event_payload: { epoch: view.epoch } },
    blocks: [
      { type: 'section', text: { type: 'mrkdwn', text: shown, verbatim: true } },
      { type: 'actions', elements: [...buttons.map(buttonElement), SETTINGS_BUTTON] },
    ],
  };
}

/** One card a channel, kept up to date and near the end. A channel gets its first when something begins there. Never throws. */
export type Cards = {
  /** The floor is like this now. */
  draw(channel: ChannelId, view: FloorView): void;
  /** One more message stands in the channel. */
  seen(channel: ChannelId): void;
  /** The `ts` of the channel's card, once it is known whether it has one. */
  current(channel: ChannelId): Promise<string | null>;
  stop(): Promise<void>;
};

/** What the cards need. */
export type CardsPorts = {
  readonly voice: Voice;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Logger;
  readonly memory: Memory;
  readonly updates: Budget;
  readonly nameOf: (agent: AgentId) => string;
  /** A card may stand in the channel that nobody knows the id of. */
  readonly lost: (channel: ChannelId) => void;
};

const INTERVAL_MS = 3_000;
/** How often the time that is left is written anew. */
const HELD_INTERVAL_MS = 30_000;
/** So many messages may stand below a card before it moves to the end. */
const MOST_BELOW = 10;
/** How long a card rests in a channel that refuses it. */
const REFUSED_MS = 300_000;
const SECTION_LIMIT = 2_900;

type Place = {
  readonly channel: ChannelId;
  view: FloorView;
  ts: string | null;
  shown: string;
  /** Messages below the card. */
  below: number;
  isMoving: boolean;
  /** It was refused: it is not drawn before the floor changes again. */
  isResting: boolean;
  calling: Promise<void> | null;
  timer: Timer | null;
  notBefore: Instant;
};

/** Keeps the cards of all channels. */
export function createCards(ports: CardsPorts): Cards {
  return new CardKeeper(ports);
}

class CardKeeper implements Cards {
  readonly #ports: CardsPorts;
  readonly #places = new Map<ChannelId, Place>();
  #isRunning = true;

  constructor(ports: CardsPorts) {
    this.#ports = ports;
  }

  draw(channel: ChannelId, view: FloorView): void {
    if (!this.#isRunning) return;
    const place = this.#places.get(channel) ?? this.#place(channel, view);
    const begins = place.view.condition === 'resting' && view.condition === 'open';
    place.view = view;
    if (begins && place.below > 0) place.isMoving = true;
    this.#arm(place, 0);
  }

  seen(channel: ChannelId): void {
    const place = this.#places.get(channel);
    if (place === undefined) return;
    place.below += 1;
    if (place.below <= MOST_BELOW || place.ts === null || place.isMoving) return;
    place.isMoving = true;
    this.#arm(place, 0);
  }

  async current(channel: ChannelId): Promise<string | null> {
    const place = this.#places.get(channel);
    await place?.calling;
    return place?.ts ?? this.#ports.memory.get(memoryKey(channel));
  }

  async stop(): Promise<void> {
    this.#isRunning = false;
    for (const { timer } of this.#places.values()) timer?.cancel();
    await Promise.all([...this.#places.values()].map(({ calling }) => calling ?? Promise.resolve()));
  }

  #place(channel: ChannelId, view: FloorView): Place {
    const ts = this.#ports.memory.get(memoryKey(channel));
    const place: Place = {
      channel,
      view: { ...view, condition: view.condition === 'open' ? 'resting' : view.condition },
      ts,
      shown: '',
      below: ts === null ? 0 : 1,
      isMoving: false,
      isResting: false,
      calling: null,
      timer: null,
      notBefore: 0,
    };
    this.#places.set(channel, place);
    return place;
  }

  #arm(place: Place, inMs: number): void {
    if (!this.#isRunning || place.calling !== null) return;
    const { clock, timers } = this.#ports;
    place.timer?.cancel();
    place.timer = timers.after(Math.max(inMs, place.notBefore - clock.now()), () => {
      place.timer = null;
      this.#redraw(place);
    });
  }

  #redraw(place: Place): void {
    const { clock, nameOf, updates } = this.#ports;
    const message = cardMessage(place.view, nameOf, clock.now());
    const content = JSON.stringify(message.blocks);
    const isNew = place.ts === null || place.isMoving;
    if (place.ts === null && place.view.condition === 'resting') return;
    if (!isNew && content === place.shown) return this.#armForTime(place);
    place.notBefore = clock.now() + INTERVAL_MS;
    if (!isNew && !updates.take()) return this.#arm(place, 0);
    place.isResting = false;
    place.calling = this.#show(place, message)
      .then(() => void (place.shown = content))
      .catch((error: unknown) => this.#failed(place, error))
      .finally(() => {
        place.calling = null;
        if (!place.isResting) this.#arm(place, 0);
      });
  }

  async #show(place: Place, message: Message): Promise<void> {
    const { voice, memory } = this.#ports;
    const { channel } = place;
    if (place.ts !== null && !place.isMoving) return voice.update(channel, place.ts, message);
    if (place.ts !== null) await voice.remove(channel, place.ts);
    place.ts = null;
    place.isMoving = false;
    place.below = 0;
    place.ts = await voice.post(channel, message);
    await memory.set(memoryKey(channel), place.ts);
  }

  /** The time that is left runs on while somebody holds the floor. */
  #armForTime(place: Place): void {
    const deadline = place.view.holder?.deadlineAt ?? null;
    if (deadline !== null && place.ts !== null) this.#arm(place, HELD_INTERVAL_MS);
  }

  #failed(place: Place, error: unknown): void {
    const { log, clock, lost } = this.#ports;
    const { channel } = place;
    log.debug({ channel, err: error }, 'the card could not be drawn');
    place.isMoving = false;
    place.isResting = !(error instanceof ChatError) || error.fault === 'refused';
    const waitMs = error instanceof ChatError ? waitAfter(error) : REFUSED_MS;
    place.notBefore = clock.now() + waitMs;
    if (isGone(error)) place.ts = null;
    else if (place.ts === null && error instanceof ChatError && error.fault === 'unclear') lost(channel);
  }
}

const SETTINGS_BUTTON = {
  type: 'button',
  action_id: SETTINGS_ACTION,
  text: { type: 'plain_text', text: 'Settings', emoji: true },
  value: buttonValue({ line: '/settings', epoch: null }),
} as const;

const STYLES = { plain: {}, good: { style: 'primary' }, danger: { style: 'danger' } } as const;

function buttonElement(button: CardButton, index: number): Readonly<Record<string, unknown>> {
  return {
    type: 'button',
    action_id: `conch:${index}`,
    text: { type: 'plain_text', text: button.label, emoji: true },
    value: buttonValue(button),
    ...STYLES[button.style],
  };
}

/** In words that stay true until the card is written anew. */
function roughlyLeft(ms: number): string {
  const minutes = Math.round(ms / 60_000);
  if (minutes < 1) return 'less than a minute left';
  if (minutes < 60) return `about ${minutes} min left`;
  return `about ${Math.round(minutes / 60)} h left`;
}

function waitAfter(error: ChatError): number {
  if (error.fault === 'refused' && !isGone(error)) return REFUSED_MS;
  return Math.max(INTERVAL_MS, error.retryAfterMs ?? HELD_INTERVAL_MS);
}

function memoryKey(channel: ChannelId): string {
  return `card:${channel}`;
}
