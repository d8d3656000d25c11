import { Alarm } from '../lib/time.ts';
import type { Clock, Instant, Timers } from '../lib/time.ts';
import { breakOf } from './floor/decide.ts';
import { draftSchema } from './floor/command.ts';
import type { Command, TurnDraft } from './floor/command.ts';
import type { Floor } from './floor/floor.ts';
import type { FloorStore, KeptTexts } from './floor-store.ts';
import type { ChannelId } from './floor/settings.ts';
import { cutOff } from './text/split.ts';

/** The name under which drafts are stored. */
const DRAFTS = 'drafts';

/** Time before a shown draft is stored, in milliseconds. People need longer to read it. */
const SHOWN_MS = 1_000;

/** Parts for storing drafts. */
type DraftPorts = {
  readonly store: {
    readonly floors: Pick<FloorStore['floors'], 'state'>;
    readonly keyValues: Pick<KeptTexts, 'forget' | 'recall' | 'remember'>;
  };
  readonly clock: Clock;
  readonly timers: Timers;
  /** Takes the holder's draft, so that an interruption posts it. */
  readonly takeDraft: (channel: ChannelId) => TurnDraft | null;
  readonly failed: (error: unknown) => void;
};

/** Drafts that people have seen and that are not posted yet. They survive a crash of the process. */
export class ShownDrafts {
  readonly #ports: DraftPorts;
  readonly #alarm: Alarm;
  /** Channels whose shown draft is newer than the stored one, with their drafts; and channels with a stored draft. */
  readonly #shown = new Map<ChannelId, () => TurnDraft | null>();
  readonly #kept = new Map<ChannelId, object>();
  #running = true;

  constructor(ports: DraftPorts) {
    this.#ports = ports;
    this.#alarm = new Alarm(ports.clock, ports.timers, () => this.#keepShown());
  }

  /** Called when a channel shows a draft. Stores it within `SHOWN_MS`. */
  shown(channel: ChannelId, draft: () => TurnDraft | null): void {
    this.#shown.set(channel, draft);
    this.#alarm.noLaterThan(this.#ports.clock.now() + SHOWN_MS);
  }

  /** Takes the draft that people saw, when the command ends or interrupts its turn; `null` when there is none. */
  take(channel: ChannelId, command: Command, at: Instant): TurnDraft | null {
    const floor = this.#ports.store.floors.state(channel);
    const broken = floor === null ? null : breakOf(floor, command, at);
    const draft = broken === null ? null : (this.#ports.takeDraft(channel) ?? this.#keptDraft(channel, floor));
    return draft !== null && broken === 'cut' ? { ...draft, text: cutOff(draft.text) } : draft;
  }

  /** The stored draft of the open turn, from before a restart. */
  #keptDraft(channel: ChannelId, floor: Floor | null): TurnDraft | null {
    const kept = this.#kept.has(channel) ? null : this.#ports.store.keyValues.recall(DRAFTS, channel);
    if (kept === null) return null;
    this.#kept.set(channel, {});
    const { data: draft } = draftSchema.safeParse(JSON.parse(kept));
    return draft !== undefined && draft.agent === floor?.turn?.agent && draft.epoch === floor.turn.epoch ? draft : null;
  }

  #keepShown(): void {
    const { store, failed } = this.#ports;
    for (const [channel, draft] of this.#shown) {
      this.#shown.delete(channel);
      const shown = draft();
      if (shown === null) continue;
      this.#kept.set(channel, {});
      store.keyValues.remember(DRAFTS, channel, JSON.stringify(shown)).catch((error: unknown) => {
        failed(error);
        if (this.#running) this.shown(channel, draft);
      });
    }
  }

  /** Deletes the stored draft, in the same commit as the post. */
  forget(channel: ChannelId, byItself: boolean): Promise<unknown> | null {
    this.#shown.delete(channel);
    const kept = this.#kept.get(channel) ?? (byItself ? {} : null);
    if (kept === null) return null;
    // The draft stays known until it is deleted, so that no second post is made.
    this.#kept.set(channel, kept);
    const gone = (): unknown => this.#kept.get(channel) === kept && this.#kept.delete(channel);
    return this.#ports.store.keyValues.forget(DRAFTS, channel).then(gone);
  }

  /** Stops storing drafts. */
  stop(): void {
    this.#running = false;
    this.#alarm.cancel();
  }
}
