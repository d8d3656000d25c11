import { Alarm } from '../lib/time.ts';
import type { Clock, Instant, Timers } from '../lib/time.ts';
import { breakOf } from './floor/decide.ts';
import { draftSchema } from './floor/command.ts';
import type { Command, TurnDraft } from './floor/command.ts';
import type { Floor } from './floor/floor.ts';
import type { FloorStore, KeptTexts } from './floor-store.ts';
import type { ChannelId } from './floor/settings.ts';
import { cutOff } from './text/split.ts';

/** Under which name drafts are kept, by channel. */
const DRAFTS = 'drafts';

/** How long a draft may be shown before it is kept, in milliseconds: people need longer to read what they then miss. */
const SHOWN_MS = 1_000;

/** What keeping drafts needs. */
type DraftPorts = {
  readonly store: {
    readonly floors: Pick<FloorStore['floors'], 'state'>;
    readonly keyValues: Pick<KeptTexts, 'forget' | 'recall' | 'remember'>;
  };
  readonly clock: Clock;
  readonly timers: Timers;
  /** Takes what the holder has shown but not said, so that an interruption keeps it. */
  readonly takeDraft: (channel: ChannelId) => TurnDraft | null;
  readonly failed: (error: unknown) => void;
};

/** Texts that people have seen as they were generated, and that are not yet said. */
export class ShownDrafts {
  readonly #ports: DraftPorts;
  readonly #alarm: Alarm;
  /** Drafts that were shown and are not kept as they are now, and of which channels one is kept. */
  readonly #shown = new Map<ChannelId, () => TurnDraft | null>();
  readonly #kept = new Map<ChannelId, object>();
  #running = true;

  constructor(ports: DraftPorts) {
    this.#ports = ports;
    this.#alarm = new Alarm(ports.clock, ports.timers, () => this.#keepShown());
  }

  /** The draft of a channel is shown: it is kept within a second. */
  shown(channel: ChannelId, draft: () => TurnDraft | null): void {
    this.#shown.set(channel, draft);
    this.#alarm.noLaterThan(this.#ports.clock.now() + SHOWN_MS);
  }

  /** What people have seen of a text whose turn the command ends or interrupts; `null`: nothing, or no turn ends. */
  take(channel: ChannelId, command: Command, at: Instant): TurnDraft | null {
    const floor = this.#ports.store.floors.state(channel);
    const broken = floor === null ? null : breakOf(floor, command, at);
    const draft = broken === null ? null : (this.#ports.takeDraft(channel) ?? this.#keptDraft(channel, floor));
    return draft !== null && broken === 'cut' ? { ...draft, text: cutOff(draft.text) } : draft;
  }

  /** What was shown of the turn under way before this process began, or by another. */
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

  /** In one commit with what says it; another process may have kept what Conch says by itself. */
  forget(channel: ChannelId, byItself: boolean): Promise<unknown> | null {
    this.#shown.delete(channel);
    const kept = this.#kept.get(channel) ?? (byItself ? {} : null);
    if (kept === null) return null;
    // Until it is gone it is known: nobody says it once more.
    this.#kept.set(channel, kept);
    const gone = (): unknown => this.#kept.get(channel) === kept && this.#kept.delete(channel);
    return this.#ports.store.keyValues.forget(DRAFTS, channel).then(gone);
  }

  /** Nothing is kept any more. */
  stop(): void {
    this.#running = false;
    this.#alarm.cancel();
  }
}
