import type { ServerFrame } from '../../src/adapters/console/protocol.ts';
import type { FloorView } from '../../src/turns/view.ts';

/** A message from a page, and the server's answer to it. */
export type Sent = {
  readonly key: string;
  /** The page that sent it. */
  readonly by: string;
  readonly channel: string;
  readonly text: string;
  /** True when no other message of the run has this text. */
  readonly unique: boolean;
  /** The id that the server accepted the message with. */
  id: string | null;
  /** The new text of an edit that the server accepted; `null` for a deletion. */
  change?: string | null;
};

/** The faults that a run found, as sentences. */
export type Faults = {
  readonly lost: string[];
  readonly twice: string[];
  readonly doubleHolders: string[];
  /** Messages marked as done although no completed generation was prompted with them. */
  readonly doneUnseen: string[];
  /** Tool calls that ran more often than they were claimed. */
  readonly effectsTwice: string[];
  /** Calls that started and have no known outcome, without being marked so. */
  readonly unknownUnmarked: string[];
  /** Questions without an end, and answers that the server confirmed and did not store. */
  readonly approvalsLost: string[];
  readonly other: string[];
};

/** An answer to an agent's question, confirmed by the server. */
export type Answered = { readonly channel: string; readonly question: number; readonly choice: 'allow' | 'reject' };

/** The server's answers and the pages' contents, over all lives of the program. */
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
  /** Tool calls that reached their servers. */
  calls = 0;
  /** Filled forms that reached the servers that asked them. */
  forms = 0;
  /** Reports of background runs that were said. */
  reports = 0;
  /** Messages that a page showed, by id. */
  readonly shown = new Map<string, string>();
  /** Posts that were pending when the program was killed. */
  cutShort = 0;
  /** Messages answered completely by agents that keep their prompts: all, and the most in one turn. */
  witnessed = 0;
  mostAtOnce = 0;
  /** Confirmed commands that change a mode, by channel. */
  readonly modesSet = new Map<string, number>();
  readonly #holders = new Map<string, string>();
  readonly #epochs = new Map<string, number>();

  /** Records a frame that a page received. `page`: the page's name, the same for all its connections. */
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
