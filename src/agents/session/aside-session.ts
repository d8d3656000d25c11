import type { AgentCommand, CommandOf } from '../../turns/floor/command.ts';
import { besideOf } from '../../turns/floor/seats.ts';
import type { ChannelId } from '../../turns/floor/settings.ts';
import { EXECUTION_ERROR, codeOf } from '../backends/backend.ts';
import type { SessionFailure } from '../backends/backend.ts';
import type { OutboxRow } from '../../turns/floor-store.ts';
import type { FloorView, Line } from '../../turns/view.ts';
import type { FloorPort } from './floor-port.ts';
import type { Beat } from './heartbeat.ts';
import { SeatedAgent } from './seated-agent.ts';
import type { AgentSpec, SeatedAgentPorts } from './seated-agent.ts';

/** What an agent is asked to do beside its floor, under a session's number. */
export type AsideOrder = {
  readonly channel: ChannelId;
  readonly session: number;
  readonly by: string;
  readonly prompt: string;
  /** How long it may be silent, in milliseconds. */
  readonly timeoutMs: number;
  /** The model that does it, if not that of its agent. */
  readonly model?: string;
  /** Whether it may use any tool of a server, or this one, beside what holds for its agent; without it, it may. */
  readonly reaches?: (server: string, tool: string | null) => boolean;
};

/** Who is told of it: what it is just writing, each sign of its work, its end with all that was said, or that it is lost; and what its floor is to be told: what it spent, and tools that are gone or back. */
export type AsideListener = {
  drafted(text: string | null): void;
  worked(sign: Pick<CommandOf<'work'>, 'open' | 'limitMs'>): void;
  done(text: string): void;
  lost(failure: SessionFailure): void;
  told(report: CommandOf<'spend' | 'tellTools'>): void;
};

/**
 * One agent at work beside a floor: a session of its own with one prompt, which sees the conversation and says nothing into it.
 * What it says is kept until it has ended.
 */
export class AsideSession {
  readonly #listener: AsideListener;
  readonly #said: string[] = [];
  readonly #agent: SeatedAgent;
  #isOver = false;

  constructor(spec: AgentSpec, order: AsideOrder, ports: Omit<SeatedAgentPorts, 'commands'>, listener: AsideListener) {
    this.#listener = listener;
    const { model, reaches = () => true } = order;
    const set = model === undefined ? spec : { ...spec, model };
    this.#agent = new SeatedAgent(set, besideOf(order.channel), {
      ...ports,
      sessionSettings: (channel) => {
        const settings = ports.sessionSettings(channel);
        const { reaches: known = () => true } = settings;
        return { ...settings, reaches: (agent, ...tool) => known(agent, ...tool) && reaches(...tool) };
      },
      floors: { ...floorsFor(spec, order, ports), draft: (...[, , , text]) => listener.drafted(text) },
      // It begins anew with every session: nothing of it outlives the program but its run.
      journal: { state: () => null, apply: async () => {} },
      commands: {
        send: async (command) => {
          this.#hear(command);
          return null;
        },
        close: async () => {},
      },
    });
    this.#begin(spec, order, ports).catch((error: unknown) => this.#lose(String(error), { code: codeOf(error) }));
  }

  /** What it has said so far, and is just saying. */
  written(): string {
    const draft = this.#agent.draft?.text ?? '';
    return [...this.#said, ...(draft.trim() === '' ? [] : [draft])].join('\n\n');
  }

  /** Whether nothing more is heard of it. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** A heartbeat is due. */
  beat(beat: Beat): void {
    this.#agent.beat(beat);
  }

  /** Ends it without a word. */
  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#agent.close();
  }

  async #begin(spec: AgentSpec, order: AsideOrder, { floors }: Pick<SeatedAgentPorts, 'floors'>): Promise<void> {
    await this.#agent.open();
    if (!this.#agent.connected) return this.#lose(this.#agent.lastCause ?? 'it is not there', this.#agent.failure);
    const uptoLine = floors.lines(order.channel, 1).at(-1)?.line ?? 0;
    const { session: epoch } = order;
    const effect = {
      type: 'prompt',
      agent: spec.id,
      epoch,
      reason: 'grant',
      afterLine: uptoLine,
      uptoLine,
      messages: [ORDER],
      open: [],
    } as const;
    this.#hear({ type: 'work', agent: spec.id, epoch, open: 0 });
    const taken = await this.#agent.prompt({ ...ROW, id: `${order.channel} ${epoch}`, effect }, effect);
    if (taken.state !== 'confirmed') this.#lose('it took no prompt');
  }

  #hear(command: AgentCommand): void {
    if (this.#isOver) return;
    switch (command.type) {
      case 'say':
        this.#said.push(command.text);
        return;
      case 'spend':
      case 'tellTools':
        return this.#listener.told(command);
      case 'work':
        return this.#listener.worked(command);
      case 'leave':
        return this.#lose(command.cause, {
          code: command.error?.code,
          final: command.error?.recoverable === false,
        });
      case 'end':
      case 'wait':
        this.#isOver = true;
        return this.#listener.done(this.#said.join('\n\n'));
      case 'join':
      case 'use':
      case 'request':
      case 'withdraw':
      case 'injected':
      case 'interrupted':
      case 'choose':
        return; // A floor's own matters: there is none here.
    }
  }

  #lose(message: string, { code = EXECUTION_ERROR, final = false }: FailureKind = {}): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#listener.lost({ message, code, final });
  }
}

type FailureKind = { readonly code?: string | undefined; readonly final?: boolean };

/** Unlike the id of any platform's message. */
const ORDER = '\u0001order';

const ROW: Omit<OutboxRow, 'id' | 'effect'> = {
  channel: '',
  lane: '',
  part: 0,
  text: null,
  attempts: 0,
  uncertain: false,
  afterId: null,
  editsId: null,
};

/** The floor as it looks from beside: its conversation, and one message to answer, which is no part of it. */
function floorsFor(
  { id: agent }: AgentSpec,
  { channel, session, by, prompt, timeoutMs }: AsideOrder,
  { floors, clock }: Pick<SeatedAgentPorts, 'floors' | 'clock'>,
): FloorPort {
  const startedAt = clock.now();
  const author = { kind: 'person', id: by, name: by } as const;
  const text = `${prompt}\n\n${HOW}`;
  const order: Line = { line: 0, at: startedAt, author, text, attachments: [], message: ORDER, change: null };
  const at = { epoch: session, startedAt, waitingFor: null, working: false, approval: null } as const;
  const holder = (): FloorView['holder'] => ({
    agent,
    status: 'ACTIVE',
    ...at,
    deadlineAt: clock.now() + timeoutMs,
  });
  return {
    ...floors,
    linesBetween: (_, after, upto) => floors.linesBetween(channel, after, upto),
    lines: (_, limit) => floors.lines(channel, limit),
    message: (id) => (id === ORDER ? order : floors.message(id)),
    view: () => {
      const view = floors.view(channel);
      return view === null ? null : { ...view, holder: holder(), next: [], turns: null };
    },
    holder,
  };
}

const HOW =
  '(This is a background run. Nobody waits for you. What you write is posted as your report at the end. ' +
  'Nobody answers questions meanwhile.)';
