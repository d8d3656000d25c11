import type { ServerFrame } from '../../src/adapters/console/protocol.ts';
import type { FloorView } from '../../src/turns/view.ts';

/** One message of a page, and what the server promised about it. */
export type Sent = {
  readonly key: string;
  /** The page that sent it. */
  readonly by: string;
  readonly channel: string;
  readonly text: string;
  /** Nothing else in the whole run has this text. */
  readonly unique: boolean;
  /** Set once the server said "accepted". */
  id: string | null;
  /** A change of it that the server accepted; `null` is a deletion. */
  change?: string | null;
};

/** What a run found wrong. */
export type Faults = {
  readonly lost: string[];
  readonly twice: string[];
  readonly doubleHolders: string[];
  /** Marked as done though no generation that completed was prompted with it. */
  readonly doneUnseen: string[];
  /** Calls of tools that were done more often than they were claimed. */
  readonly effectsTwice: string[];
  /** Calls that were begun, of which nobody knows the end, and that do not say so. */
  readonly unknownUnmarked: string[];
  /** Questions without an end, and answers that people were told count and that are not on record. */
  readonly approvalsLost: string[];
  readonly other: string[];
};

/** An answer to a question of an agent, as the server said that it counts. */
export type Answered = { readonly channel: string; readonly question: number; readonly choice: 'allow' | 'reject' };

/** What people were told and shown over all lives of the program. */
export class Ledger {
  readonly sent: Sent[] = [];
  readonly faults: Faults = {
    lost: [],
    twice: [],
    doubleHolders: [],
    doneUnseen: [],
    effectsTwice: [],
    unknownUnmarked: [],
    approvalsLost: [],
    other: [],
  };
  readonly answered: Answered[] = [];
  /** How many calls of tools reached their servers. */
  calls = 0;
  /** How many forms that people filled in reached the servers that had asked. */
  forms = 0;
  /** How many reports of work beside a floor were said. */
  reports = 0;
  /** Messages that some page showed, by id. */
  readonly shown = new Map<string, string>();
  /** Posts that were under way when the program was killed. */
  cutShort = 0;
  /** How many messages agents that keep their prompts answered to the end, and how many of them at once at the most. */
  witnessed = 0;
  mostAtOnce = 0;
  /** How many commands that change a mode were confirmed, by channel. */
  readonly modesSet = new Map<string, number>();
  readonly #holders = new Map<string, string>();
  readonly #epochs = new Map<string, number>();

  /** Takes down what a page was shown; `page` names the page over all its connections. */
  look(page: string, frame: ServerFrame): void {
    if (frame.type !== 'state' && frame.type !== 'batch') return;
    for (const message of frame.messages) this.shown.set(message.id, frame.channel ?? '');
    if (frame.view !== undefined && frame.view !== null) this.#floor(page, frame.view);
  }

  #floor(page: string, view: FloorView): void {
    const { channel, holder, epoch } = view;
    const active = view.seats.filter((seat) => seat.status === 'ACTIVE').map((seat) => seat.agent);
    if (active.length > 1) this.faults.doubleHolders.push(`${page} saw ${active.join(' and ')} ACTIVE in ${channel}`);
    if (active.length === 1 && (holder?.status !== 'ACTIVE' || holder.agent !== active[0]))
      this.faults.doubleHolders.push(
        `${page} saw ${active[0]} ACTIVE in ${channel} while ${holder?.agent ?? 'nobody'} held`,
      );
    if (holder !== null) {
      const turn = `${channel} #${holder.epoch}`;
      const known = this.#holders.get(turn) ?? holder.agent;
      if (known !== holder.agent) this.faults.doubleHolders.push(`${turn} was shown with ${known} and ${holder.agent}`);
      this.#holders.set(turn, known);
    }
    const seen = this.#epochs.get(`${page} ${channel}`) ?? 0;
    if (epoch < seen) this.faults.lost.push(`${page} saw epoch ${seen} of ${channel}, then ${epoch}`);
    this.#epochs.set(`${page} ${channel}`, Math.max(seen, epoch));
  }
}
