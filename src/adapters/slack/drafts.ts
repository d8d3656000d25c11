import type { Logger } from 'pino';
import type { AgentId, ChannelId } from '../../turns/floor/settings.ts';
import type { Clock, Instant, Timer, Timers } from '../../lib/time.ts';
import { ChatError } from '../port.ts';
import type { Speaker } from '../port.ts';
import { platformChannel } from './ids.ts';
import { isGone } from './voice.ts';
import type { Mark, Voice } from './voice.ts';
import type { Budget, Pace } from './pace.ts';

/**
 * Text that is still being generated, as one message a channel that is edited, and that becomes the post in the end.
 * Nothing is retried: the newest text is shown when Slack takes it. Slack's own streams are not used: they carry no mark
 * until they end, so one that a crash left open could not be told from a post, and its text would stand twice.
 */
export type Drafts = {
  /** Shows the newest text of a turn, soon; `null` takes it away, unless its post comes. */
  write(channel: ChannelId, speaker: NonNullable<Speaker>, epoch: number, text: string | null): void;
  /**
   * Hands over the message in which this turn's text is shown, so that it becomes the post; `null` when there is none, or
   * when other posts stand below it, and then it is taken away.
   */
  claim(channel: ChannelId, agent: AgentId, epoch: number): Promise<string | null>;
  /** A post of Conch's with this `ts` stands in the channel now. */
  posted(channel: ChannelId, ts: string): void;
  /** Whether a draft with this mark belongs to nobody: to a former run, or to a turn whose draft got lost. */
  isLeftOver(mark: { readonly run?: unknown; readonly n?: unknown }): boolean;
  /** Takes away what is shown; resolves when that was tried. */
  stop(): Promise<void>;
};

/** What drafts need. */
export type DraftsPorts = {
  readonly voice: Voice;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Logger;
  readonly pace: Pace;
  readonly updates: Budget;
  /** Names this run of the program: drafts of another are leftovers. */
  readonly run: string;
  /** A draft may stand in the channel that nobody knows the id of. */
  readonly lost: (channel: ChannelId) => void;
};

/** An answer that is said quickly needs no draft. */
const FIRST_MS = 700;
const INTERVAL_MS = 1_500;
/** How long a draft that was taken away still waits for its post. */
const GRACE_MS = 3_000;
/** What is shown of a long draft: its end. */
const SHOWN_LIMIT = 3_500;
const REMOVALS = 3;
const REMOVAL_GAP_MS = 5_000;

type Draft = {
  readonly channel: ChannelId;
  readonly speaker: NonNullable<Speaker>;
  readonly epoch: number;
  readonly mark: Mark;
  wanted: string;
  shown: string;
  ts: string | null;
  isDead: boolean;
  /** The newest post of Conch's in the channel since the draft began. */
  passedBy: string | null;
  calling: Promise<void> | null;
  timer: Timer | null;
  notBefore: Instant;
};

/** Keeps the drafts of all channels. */
export function createDrafts(ports: DraftsPorts): Drafts {
  return new DraftKeeper(ports);
}

class DraftKeeper implements Drafts {
  readonly #ports: DraftsPorts;
  readonly #open = new Map<ChannelId, Draft>();
  /** Numbers of drafts of this run that are no longer anybody's. */
  readonly #abandoned = new Set<number>();
  #count = 0;
  #isRunning = true;

  constructor(ports: DraftsPorts) {
    this.#ports = ports;
  }

  write(channel: ChannelId, speaker: NonNullable<Speaker>, epoch: number, text: string | null): void {
    const known = this.#open.get(channel);
    const isSame = known !== undefined && known.speaker.id === speaker.id && known.epoch === epoch;
    if (!this.#isRunning || (known !== undefined && !isSame && epoch < known.epoch)) return;
    if (text === null) {
      if (isSame) this.#end(known);
      return;
    }
    if (known !== undefined && !isSame) void this.#drop(known);
    const draft = isSame ? known : this.#begin(channel, speaker, epoch);
    if (draft.wanted === '') this.#stopTimer(draft);
    draft.wanted = text;
    this.#arm(draft);
  }

  async claim(channel: ChannelId, agent: AgentId, epoch: number): Promise<string | null> {
    const draft = this.#open.get(channel);
    if (draft === undefined || draft.speaker.id !== agent || draft.epoch !== epoch) return null;
    this.#open.delete(channel);
    this.#stopTimer(draft);
    await draft.calling;
    if (draft.ts === null) return null;
    if (draft.passedBy === null || draft.passedBy < draft.ts) return draft.ts;
    await this.#drop(draft);
    return null;
  }

  posted(channel: ChannelId, ts: string): void {
    const draft = this.#open.get(channel);
    if (draft !== undefined && (draft.passedBy === null || draft.passedBy < ts)) draft.passedBy = ts;
  }

  isLeftOver({ run, n }: { readonly run?: unknown; readonly n?: unknown }): boolean {
    return run !== this.#ports.run || (typeof n === 'number' && this.#abandoned.has(n));
  }

  async stop(): Promise<void> {
    this.#isRunning = false;
    await Promise.all([...this.#open.values()].map((draft) => this.#drop(draft)));
  }

  #begin(channel: ChannelId, speaker: NonNullable<Speaker>, epoch: number): Draft {
    const { run, clock } = this.#ports;
    const n = (this.#count += 1);
    const draft: Draft = {
      channel,
      speaker,
      epoch,
      mark: { event_type: 'conch_draft', event_payload: { run, n, agent: speaker.id, epoch } },
      wanted: '',
      shown: '',
      ts: null,
      isDead: false,
      passedBy: null,
      calling: null,
      timer: null,
      notBefore: clock.now() + FIRST_MS,
    };
    this.#open.set(channel, draft);
    return draft;
  }

  #end(draft: Draft): void {
    this.#stopTimer(draft);
    draft.wanted = '';
    draft.timer = this.#ports.timers.after(GRACE_MS, () => void this.#drop(draft));
  }

  #arm(draft: Draft): void {
    const isIdle = draft.timer === null && draft.calling === null && !draft.isDead;
    if (!isIdle || !this.#isRunning || this.#open.get(draft.channel) !== draft) return;
    if (draft.wanted === '' || draft.wanted === draft.shown) return;
    const { clock, timers, pace } = this.#ports;
    const place = draft.ts === null ? pace.wait(platformChannel(draft.channel).channel) : 0;
    draft.timer = timers.after(Math.max(0, draft.notBefore - clock.now(), place), () => {
      draft.timer = null;
      this.#show(draft);
    });
  }

  #show(draft: Draft): void {
    const { voice, clock, updates } = this.#ports;
    const { channel, speaker, wanted, ts, mark } = draft;
    if (ts !== null && !updates.take()) {
      draft.notBefore = clock.now() + INTERVAL_MS;
      return this.#arm(draft);
    }
    const message = { speaker, text: newest(wanted), mark };
    const showing =
      ts === null
        ? voice.post(channel, message).then((fresh) => void (draft.ts = fresh))
        : voice.update(channel, ts, message);
    draft.notBefore = clock.now() + INTERVAL_MS;
    draft.calling = showing
      .then(() => void (draft.shown = wanted))
      .catch((error: unknown) => this.#failed(draft, error))
      .finally(() => {
        draft.calling = null;
        this.#arm(draft);
      });
  }

  #failed(draft: Draft, error: unknown): void {
    const { log, clock, lost } = this.#ports;
    log.debug({ channel: draft.channel, err: error }, 'a draft could not be shown');
    if (!(error instanceof ChatError)) return void (draft.isDead = true);
    if (error.fault === 'limited') return void (draft.notBefore = clock.now() + (error.retryAfterMs ?? 0));
    if (draft.ts === null) {
      draft.isDead = true;
      if (error.fault === 'unclear') this.#abandon(draft, lost);
    } else if (error.fault === 'refused') {
      draft.isDead = true;
      if (isGone(error)) draft.ts = null;
    }
  }

  async #drop(draft: Draft): Promise<void> {
    if (this.#open.get(draft.channel) === draft) this.#open.delete(draft.channel);
    this.#stopTimer(draft);
    draft.isDead = true;
    await draft.calling;
    if (draft.ts !== null) await this.#remove(draft, draft.ts, 1);
  }

  async #remove(draft: Draft, ts: string, attempt: number): Promise<void> {
    const { voice, timers, log, lost } = this.#ports;
    try {
      await voice.remove(draft.channel, ts);
    } catch (error) {
      log.debug({ channel: draft.channel, err: error, attempt }, 'a draft could not be taken away');
      if (attempt === REMOVALS || !this.#isRunning) return this.#abandon(draft, lost);
      timers.after(REMOVAL_GAP_MS * attempt, () => void (this.#isRunning && this.#remove(draft, ts, attempt + 1)));
    }
  }

  #abandon(draft: Draft, lost: (channel: ChannelId) => void): void {
    this.#abandoned.add(Number(draft.mark.event_payload['n']));
    if (this.#isRunning) lost(draft.channel);
  }

  #stopTimer(draft: Draft): void {
    draft.timer?.cancel();
    draft.timer = null;
  }
}

/** The end of a text, from the beginning of a line if one is near. */
function newest(text: string): string {
  if (text.length <= SHOWN_LIMIT) return text;
  const end = text.slice(-SHOWN_LIMIT).replace(/^[\uDC00-\uDFFF]/, '');
  const line = end.indexOf('\n');
  return `…\n${line !== -1 && line < SHOWN_LIMIT / 2 ? end.slice(line + 1) : end}`;
}
