import { LLMock } from '@copilotkit/aimock';
import type { ChatCompletionRequest } from '@copilotkit/aimock';

/** A request to a model. */
export type Asked = {
  /** The agent of the model. Agents and their models have the same names here. */
  readonly agent: string;
  /** The names of the offered tools. */
  readonly tools: readonly string[];
  /** The results of the model's last calls, in order. Empty right after a prompt. */
  readonly results: readonly string[];
  /** The whole text that the model gets. */
  readonly text: string;
  /** The time by this process's clock, in milliseconds. */
  readonly at: number;
};

/** A model's answer: a text, or calls in order. */
export type Reply = {
  readonly text?: string;
  readonly calls?: readonly { readonly name: string; readonly input: object }[];
};

/** A function that answers in place of a model. */
export type Mind = (asked: Asked) => Reply | Promise<Reply>;

/** The local service of all models of a stage. Keeps every request. */
export class Models {
  readonly requests: Asked[] = [];
  /** The time of the last answer by this process's clock, in milliseconds. */
  answeredAt = 0;
  readonly #mock = new LLMock({ port: 0, host: '127.0.0.1' });
  readonly #scripts = new Map<string, Reply[]>();
  #mind: Mind | null = null;
  #calls = 0;

  /** The URL of the service. */
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

  /** Sets the answers of an agent's model, request by request. After them it says that it is done. */
  play(agent: string, replies: readonly Reply[]): void {
    this.#scripts.set(agent, [...replies]);
  }

  /** Lets a mind answer all requests in place of the scripts; `null`: the scripts answer again. */
  think(mind: Mind | null): void {
    this.#mind = mind;
  }

  async stop(): Promise<void> {
    await this.#mock.stop();
  }
}

/** The answer of a model that has nothing more to do. */
export const DONE: Reply = { text: 'Done.' };

/** An answer with one call. */
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
