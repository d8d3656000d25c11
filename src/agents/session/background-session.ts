import type { AgentCommand, CommandOf } from '../../turns/floor/command.ts';
import { backgroundSessionIdOf } from '../../turns/floor/seats.ts';
import type { ChannelId } from '../../turns/floor/settings.ts';
import { defined } from '../../lib/defined.ts';
import type { Line } from '../../turns/view.ts';
import { EXECUTION_ERROR, codeOf } from '../backends/backend.ts';
import type { SessionFailure } from '../backends/backend.ts';
import { lackedLines } from '../prompt/prompt.ts';
import type { SessionKnowledge, Work } from '../prompt/prompt.ts';
import { SessionExecutor } from './session-executor.ts';
import type { AgentSpec, SessionPorts } from './session-executor.ts';

/** What a background run is told to do, and its limits. */
export type BackgroundOrder = {
  readonly channel: ChannelId;
  readonly session: number;
  /** True before the first step of the run: its session begins without the memory of an earlier run. */
  readonly isFirst: boolean;
  /** The person who requested the run. The prompt counts as this person's message. */
  readonly by: { readonly id: string; readonly name: string };
  readonly prompt: string;
  /** The run's longest time without a sign of work, in milliseconds. While a call is open, the call's limit counts. */
  readonly timeoutMs: number;
  /** The model of the run; default: the agent's model. */
  readonly model?: string;
  /**
   * Returns whether this run may use the tool. The agent's rules also apply. `tool: null`: whether the run may use any
   * tool of the server. Default: every tool.
   */
  readonly reaches?: (server: string, tool: string | null) => boolean;
};

/**
 * Callbacks of a background run. `reported`: reports costs, and tools that are unavailable or available again, for the
 * floor. The others report the run's draft (`null` removes it), its signs of work, its end with the whole text, and its
 * loss.
 */
export type BackgroundListener = {
  drafted(text: string | null): void;
  worked(sign: Pick<CommandOf<'work'>, 'open' | 'limitMs'>): void;
  done(text: string): void;
  lost(failure: SessionFailure): void;
  reported(report: CommandOf<'spend' | 'tellTools'>): void;
};

/**
 * The session of a background run, with one prompt. The session gets the conversation and posts nothing: its texts stay
 * in memory until the end. A restart of Conch loses the texts.
 */
export class BackgroundSession {
  readonly #spec: AgentSpec;
  readonly #order: BackgroundOrder;
  readonly #ports: SessionPorts;
  readonly #listener: BackgroundListener;
  readonly executor: SessionExecutor;
  readonly #texts: string[] = [];
  #isOver = false;

  constructor(spec: AgentSpec, order: BackgroundOrder, ports: SessionPorts, listener: BackgroundListener) {
    const { model = spec.model, reaches } = order;
    this.#spec = { ...spec, ...defined({ model }) };
    this.#order = order;
    this.#ports = ports;
    this.#listener = listener;
    const channel = backgroundSessionIdOf(order.channel);
    if (order.isFirst) spec.backend.forget?.({ channel, agent: spec.id, ...defined({ model }) });
    this.executor = new SessionExecutor({ spec: this.#spec, channel, record: null }, ports, {
      commands: {
        send: async (command) => {
          this.#hear(command);
          return null;
        },
      },
      drafted: (_, text) => listener.drafted(text),
      leftMs: () => order.timeoutMs,
      opened: async () => {},
      lost: (failure) => this.#lose(failure),
      absent: (message) => this.#lose({ ...ABSENT, message }),
      ...defined({ reaches }),
    });
    this.#begin().catch((error: unknown) => this.#lose({ message: String(error), code: codeOf(error), final: false }));
  }

  /** Returns all texts so far, the draft included. */
  written(): string {
    const draft = this.executor.generation?.draft?.text ?? '';
    return [...this.#texts, ...(draft.trim() === '' ? [] : [draft])].join('\n\n');
  }

  /** True once the run has ended, was lost or was stopped. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /**
   * Stops the run. `done` and `lost` are not called afterwards. `reported`, and `drafted` with `null`, can still be called.
   */
  async stop(): Promise<void> {
    this.#isOver = true;
    this.executor.generation?.abandon();
    await this.executor.close();
  }

  async #begin(): Promise<void> {
    const executor = this.executor;
    await executor.begin();
    const { session, lastCause } = executor;
    if (session === null) return this.#lose({ ...ABSENT, message: lastCause ?? ABSENT.message });
    this.#listener.worked({ open: 0 });
    executor.prompt(executor.promptFor(session, (knowledge) => this.#work(knowledge)).turn);
  }

  #work(knowledge: SessionKnowledge): Work {
    const { channel, session: epoch, by, prompt } = this.#order;
    const { floors, clock } = this.#ports;
    const uptoLine = floors.lines(channel, 1).at(-1)?.line ?? 0;
    const author = { ...by, kind: 'person' } as const;
    const message: Line = {
      line: 0,
      at: clock.now(),
      author,
      text: `${prompt}\n\n${HOW}`,
      attachments: [],
      message: ORDER,
      change: null,
    };
    const view = floors.view(channel);
    return {
      epoch,
      reason: 'grant',
      lines: lackedLines({ channel, agent: this.#spec.id, afterLine: uptoLine, uptoLine }, floors, knowledge),
      uptoLine,
      messages: [message],
      open: [],
      said: [],
      view: view && { ...view, next: [], turns: null },
      ask: {},
    };
  }

  #hear(command: AgentCommand): void {
    // Usage can be reported after the end of the run.
    if (command.type === 'spend' || command.type === 'tellTools') this.#listener.reported(command);
    else if (this.#isOver) return;
    else if (command.type === 'say') this.#texts.push(command.text);
    else if (command.type === 'work') this.#listener.worked(command);
    else if (command.type === 'end' || command.type === 'wait') {
      this.#isOver = true;
      this.#listener.done(this.#texts.join('\n\n'));
    }
  }

  #lose(failure: SessionFailure): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#listener.lost(failure);
  }
}

/** The message id of the order. No platform gives such an id. */
const ORDER = '\u0001order';
const ABSENT: SessionFailure = { message: 'its session could not be opened', code: EXECUTION_ERROR, final: false };

const HOW =
  '(This is a background run. Nobody waits for you. What you write is posted as your report at the end. ' +
  'Nobody answers questions meanwhile.)';
