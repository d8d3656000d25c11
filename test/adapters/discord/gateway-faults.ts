import type { Event } from './state.ts';

/** Which dispatches a fault is for. */
type Kind = 'duplicate' | 'duplicate-after-reconnect' | 'drop' | 'reorder';

/** What goes wrong between what happens and what is told. */
export class DispatchFaults {
  readonly #armed: { readonly kind: Kind; readonly t: string }[] = [];
  #held: Event | null = null;
  #later: Event[] = [];

  /** The next dispatch of this name is doubled, lost, or told after the one that follows it. */
  arm(kind: Kind, t: string): void {
    this.#armed.push({ kind, t });
  }

  /** What is really told when this happens. */
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

  /** What is told once more after a client has come back. */
  afterReconnect(): readonly Event[] {
    const later = this.#later;
    this.#later = [];
    return later;
  }
}
