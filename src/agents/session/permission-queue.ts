import type { Approval, Choice } from '../../turns/floor/settings.ts';
import { KeyedQueue } from '../../lib/keyed.ts';
import { visible } from '../../lib/visible.ts';
import type { PermissionRequest } from '../backends/backend.ts';

/** Where requests for permission go. */
export type PermissionQueuePorts = {
  /** Resolves with the question's number, or `null` when the floor did not take it. */
  readonly request: (approval: Approval, unaskable: string | null) => Promise<number | null>;
  readonly withdraw: (question: number) => void;
};

/** A longer text is not asked, in UTF-16 units: nobody would read it. */
export const LONGEST_DETAIL = 262_144;

/** What one generation asks people, one request after the other: people decide about what they see. */
export class PermissionQueue {
  readonly #ports: PermissionQueuePorts;
  #asked: Asked | null = null;
  readonly #questions = new KeyedQueue<'question'>();
  /** The last decision that came: perhaps before the number of its question was known. */
  #decision: { readonly question: number; readonly choice: Choice } | null = null;

  constructor(ports: PermissionQueuePorts) {
    this.#ports = ports;
  }

  /** Whether people are being asked. */
  get open(): boolean {
    return this.#asked !== null;
  }

  /** Asks once everything before it is answered; `before` then says whether it is still wanted. Withdrawn is `cancelled`. */
  ask(
    request: PermissionRequest,
    withdrawn: AbortSignal,
    before: () => Promise<boolean>,
  ): Promise<Choice | 'cancelled'> {
    return this.#questions.run('question', async () => {
      const isWanted = await before();
      return isWanted && !withdrawn.aborted ? await this.#ask(request, withdrawn) : 'cancelled';
    });
  }

  /** The answer to the question with this number, and to no other. */
  decide(question: number, choice: Choice): void {
    this.#decision = { question, choice };
    if (this.#asked?.question === question) this.#asked.answer.resolve(choice);
  }

  /** Nobody waits for the answer any more: the floor learns that the question is over. */
  withdraw(): void {
    const asked = this.#asked;
    if (asked === null || asked.over) return;
    asked.over = true;
    if (asked.question !== null) this.#ports.withdraw(asked.question);
    asked.answer.resolve('cancelled');
  }

  /** The turn is over, and with it the question. */
  drop(): void {
    if (this.#asked !== null) this.#asked.over = true;
    this.#asked?.answer.resolve('cancelled');
  }

  async #ask(request: PermissionRequest, withdrawn: AbortSignal): Promise<Choice | 'cancelled'> {
    const asked: Asked = { question: null, over: false, answer: Promise.withResolvers() };
    this.#asked = asked;
    const withdraw = (): void => this.withdraw();
    withdrawn.addEventListener('abort', withdraw, { once: true });
    void this.#put(request, asked);
    const choice = await asked.answer.promise;
    withdrawn.removeEventListener('abort', withdraw);
    this.#asked = null;
    return choice;
  }

  async #put(request: PermissionRequest, asked: Asked): Promise<void> {
    const approval = { title: visible(request.title), detail: visible(request.detail) };
    const isLong = approval.detail.length > LONGEST_DETAIL;
    const question = await this.#ports.request(approval, isLong ? TOO_LONG : (request.unaskable ?? null));
    if (question === null) asked.answer.resolve('cancelled');
    else if (asked.over) this.#ports.withdraw(question);
    asked.question = question;
    if (question !== null && this.#decision?.question === question) asked.answer.resolve(this.#decision.choice);
  }
}

type Asked = {
  /** `null` until the floor has numbered it. */
  question: number | null;
  over: boolean;
  readonly answer: PromiseWithResolvers<Choice | 'cancelled'>;
};

const TOO_LONG = `what would run is longer than ${LONGEST_DETAIL.toLocaleString('en-US')} characters; it has to be split`;
