import type { TurnPrompt } from '../../src/agents/backends/backend.ts';
import type { Fact } from '../../src/turns/floor/fact.ts';
import type { Floor } from '../../src/turns/floor/floor.ts';
import { must } from './violation.ts';

/** A turn: its epochs, the messages for its next prompt, and the answered messages. */
type Ledger = {
  readonly startedAt: number;
  readonly epochs: Set<number>;
  readonly open: Set<string>;
  readonly done: Set<string>;
};

/** The turn of a generation. A report of it counts for the turn with this epoch, or for none. */
export type Generating = { readonly channel: string; readonly agent: string; readonly epoch: number };

/**
 * I25, as sessions see it: a done message was in a prompt, whole and marked, or was injected into the generation, and
 * the generation ended by itself. Until then the message is in every further prompt of its turn.
 */
export class Answers {
  readonly #ledgers = new Map<string, Ledger>();
  /** Deleted messages: no agent has to answer them any more. */
  readonly #deleted = new Set<string>();

  /** Checks and records a prompt of a session. */
  prompted(agent: string, { channel, epoch, reason, messages, text }: TurnPrompt): void {
    const ledger = this.#at({ channel, agent, epoch });
    const ids = messages.flatMap(({ message }) => (message === null ? [] : [message]));
    const wanted = messages.filter(({ change }) => change !== 'deleted');
    const marked = text.match(/^\[from .*, to answer now(?:, still open)?\]$/gm)?.length ?? 0;
    must('I25', marked === wanted.length, () => `#${epoch} of ${channel}: ${marked} of ${wanted.length} are marked`);
    const cut = wanted.filter((line) => !line.text.split('\n').every((part) => text.includes(part)));
    must(
      'I25',
      cut.length === 0,
      () => `#${epoch} of ${channel} holds in part: ${cut.map(({ message }) => message).join()}`,
    );
    if (ledger === null) return;
    const missing = reason === 'grant' ? [] : [...ledger.open].filter((id) => !ids.includes(id));
    must(
      'I25',
      missing.length === 0,
      () => `${agent} #${epoch} of ${channel} was not prompted again with ${missing.join()}`,
    );
    const again = reason === 'again' ? ids.filter((id) => ledger.done.has(id)) : [];
    must('I25', again.length === 0, () => `${agent} #${epoch} of ${channel} was prompted again with ${again.join()}`);
    for (const id of ids) if (!this.#deleted.has(id)) ledger.open.add(id);
  }

  /** Records an injected message. */
  injected(generating: Generating, id: string): void {
    if (!this.#deleted.has(id)) this.#at(generating)?.open.add(id);
  }

  /** Records that a generation ended by itself. */
  ended(generating: Generating): void {
    const ledger = this.#at(generating);
    for (const id of ledger?.open ?? []) ledger?.done.add(id);
    ledger?.open.clear();
  }

  /** Checks and records the facts of a command. */
  judge(channel: string, floor: Floor, facts: readonly Fact[]): void {
    for (const fact of facts) {
      if (fact.type === 'turnEnded') this.#judge(channel, fact);
      if (fact.type === 'messageAmended' && fact.change === 'deleted') this.#forget(fact.id);
      if (fact.type === 'turnGranted') this.#ledgers.delete(`${channel} ${fact.agent}`);
    }
    this.begin(floor);
  }

  /** Records the open turns of a floor. */
  begin({ channel, turn, parked }: Floor): void {
    for (const { agent, epoch, startedAt } of turn === null ? parked : [turn, ...parked]) {
      const key = `${channel} ${agent}`;
      const known = this.#ledgers.get(key);
      const isSame = known?.startedAt === startedAt;
      const ledger = isSame
        ? known
        : { startedAt, epochs: new Set<number>(), open: new Set<string>(), done: new Set<string>() };
      ledger.epochs.add(epoch);
      this.#ledgers.set(key, ledger);
    }
  }

  #forget(id: string): void {
    this.#deleted.add(id);
    for (const { open, done } of this.#ledgers.values()) {
      open.delete(id);
      done.delete(id);
    }
  }

  #judge(channel: string, { agent, epoch, outcome, answered, said }: Extract<Fact, { type: 'turnEnded' }>): void {
    const key = `${channel} ${agent}`;
    const ledger = this.#ledgers.get(key);
    this.#ledgers.delete(key);
    const isDone = (id: string): boolean => {
      if (ledger?.done.has(id) === true) return true;
      return outcome === 'lapsed' && said && ledger?.open.has(id) === true;
    };
    const unseen = answered.filter((id) => !isDone(id));
    must(
      'I25',
      unseen.length === 0,
      () => `${agent} #${epoch} of ${channel} has not answered ${unseen.join()}, marked as done`,
    );
  }

  #at({ channel, agent, epoch }: Generating): Ledger | null {
    const ledger = this.#ledgers.get(`${channel} ${agent}`);
    return ledger?.epochs.has(epoch) === true ? ledger : null;
  }
}
