import { LLMock } from '@copilotkit/aimock';
import type { ChatCompletionRequest } from '@copilotkit/aimock';

/** What a model is asked. */
export type Asked = {
  /** Whose model: agents and their models have one name here. */
  readonly agent: string;
  /** The names of the tools that it is offered. */
  readonly tools: readonly string[];
  /** What its last calls returned, in order; empty right after a prompt. */
  readonly results: readonly string[];
  /** All that it is shown. */
  readonly text: string;
  /** Milliseconds of this process's clock. */
  readonly at: number;
};

/** What it answers: a text, or calls in their order. */
export type Reply = {
  readonly text?: string;
  readonly calls?: readonly { readonly name: string; readonly input: object }[];
};

/** A mind in place of a model. */
export type Mind = (asked: Asked) => Reply | Promise<Reply>;

/** The service of all models of a stage, on this machine; every request is kept. */
export class Models {
  readonly requests: Asked[] = [];
  /** When the last answer was given, in milliseconds of this process's clock. */
  answeredAt = 0;
  readonly #mock = new LLMock({ port: 0, host: '127.0.0.1' });
  readonly #scripts = new Map<string, Reply[]>();
  #mind: Mind | null = null;
  #calls = 0;

  /** How the service is reached. */
  get url(): string {
    return `${this.#mock.url}/v1`;
  }

  async start(): Promise<void> {
    this.#mock.on({ predicate: () => true }, async (request) => {
      const asked = askedOf(request);
      this.requests.push(asked);
      const { text = '', calls = [] } = (await this.#mind?.(asked)) ?? this.#scripts.get(asked.agent)?.shift() ?? DONE;
      this.answeredAt = performance.now();
      if (calls.length === 0) return { content: text };
      const toolCalls = calls.map(({ name, input }) => {
        this.#calls += 1;
        return { name, arguments: JSON.stringify(input), id: `call-${this.#calls}` };
      });
      return { content: text, toolCalls };
    });
    await this.#mock.start();
  }

  /** What an agent's model answers from now on, request by request; then it says that it is done. */
  play(agent: string, replies: readonly Reply[]): void {
    this.#scripts.set(agent, [...replies]);
  }

  /** Lets a mind answer everything in place of scripts. */
  think(mind: Mind | null): void {
    this.#mind = mind;
  }

  async stop(): Promise<void> {
    await this.#mock.stop();
  }
}

/** What a model says that has nothing more to do. */
export const DONE: Reply = { text: 'Done.' };

/** One call, as an answer. */
export function calling(name: string, input: object): Reply {
  return { calls: [{ name, input }] };
}

function askedOf({ model, messages, tools = [] }: ChatCompletionRequest): Asked {
  const texts = messages.map(({ content }) => (typeof content === 'string' ? content : JSON.stringify(content)));
  const last = messages.findLastIndex(({ role }) => role === 'assistant');
  return {
    agent: model,
    tools: tools.map((each) => each.function.name),
    results: texts.filter((_, index) => index > last && messages[index]?.role === 'tool'),
    text: texts.join('\n'),
    at: performance.now(),
  };
}
