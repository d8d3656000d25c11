import type { Event } from './state.ts';

/** How a dispatch fails. */
type Kind = 'duplicate' | 'duplicate-after-reconnect' | 'drop' | 'reorder';

/** Faults between an event and its dispatches. */
export class DispatchFaults {
  readonly #armed: { readonly kind: Kind; readonly t: string }[] = [];
  #held: Event | null = null;
  #later: Event[] = [];

  /** Duplicates or drops the next dispatch named `t`, or swaps it with the following dispatch of that name. */
  arm(kind: Kind, t: string): void {
    this.#armed.push({ kind, t });
  }

  /** Returns the events to dispatch for this event. */
  pass(event: Event): readonly Event[] {
    if (this.#held?.t === event.t) {
      const held = this.#held;
      this.#held = null;
      return [event, held];
    }
    const at = this.#armed.findIndex(({ t }) => t === event.t);
    const kind = at === -1 ? null : this.#armed.splice(at, 1)[0]?.kind;
    if (kind === 'drop') return [];
    if (kind === 'duplicate') return [event, event];
    if (kind === 'duplicate-after-reconnect') this.#later.push(event);
    if (kind !== 'reorder') return [event];
    this.#held = event;
    return [];
  }

  /** Returns the events to dispatch again after a client reconnected. */
  afterReconnect(): readonly Event[] {
    const later = this.#later;
    this.#later = [];
    return later;
  }
}
