import type { TurnPrompt } from '../../src/agents/backends/backend.ts';
import type { Fact } from '../../src/turns/floor/fact.ts';
import type { Floor } from '../../src/turns/floor/floor.ts';
import { must } from './violation.ts';

/** One turn: under which epochs it was prompted, what its next prompt owes, and what was answered. */
type Ledger = {
  readonly startedAt: number;
  readonly epochs: Set<number>;
  readonly open: Set<string>;
  readonly done: Set<string>;
};

/** Where a generation is: what it reports counts for the turn with its epoch, or for none. */
export type Generating = { readonly channel: string; readonly agent: string; readonly epoch: number };

/**
 * I25, as sessions see it: a message that is marked as done stood, whole and marked, in a prompt (or was put into the
 * generation) of an agent that then ended by itself; until then it stands in every further prompt of its turn.
 */
export class Answers {
  readonly #ledgers = new Map<string, Ledger>();
  /** What its author took back is owed to nobody any more. */
  readonly #deleted = new Set<string>();

  /** What a session is prompted with. */
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

  /** A message was put into a generation. */
  injected(generating: Generating, id: string): void {
    if (!this.#deleted.has(id)) this.#at(generating)?.open.add(id);
  }

  /** A generation ended by itself. */
  ended(generating: Generating): void {
    const ledger = this.#at(generating);
    for (const id of ledger?.open ?? []) ledger?.done.add(id);
    ledger?.open.clear();
  }

  /** What a command brought about in a channel. */
  judge(channel: string, floor: Floor, facts: readonly Fact[]): void {
    for (const fact of facts) {
      if (fact.type === 'turnEnded') this.#judge(channel, fact);
      if (fact.type === 'messageAmended' && fact.change === 'deleted') this.#forget(fact.id);
      if (fact.type === 'turnGranted') this.#ledgers.delete(`${channel} ${fact.agent}`);
    }
    this.begin(floor);
  }

  /** Takes up the turns that a floor has open. */
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
