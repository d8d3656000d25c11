import { LLMock } from '@copilotkit/aimock';
import type { ChatCompletionRequest, FixtureResponse } from '@copilotkit/aimock';

/** A model's service on this machine that answers by the last words TASK-… that it was given. */
export type Model = {
  readonly url: string;
  /** How many requests mention these words. */
  mentions(words: string): number;
  /** From here on requests for TASK-hold wait until they are released. */
  hold(): void;
  /** Resolves when a request for TASK-hold has come. */
  held(): Promise<void>;
  release(): void;
  stop(): Promise<void>;
};

/** Starts the service. */
export async function startModel(): Promise<Model> {
  const seen: string[] = [];
  let arrived = Promise.withResolvers<void>();
  let gate: PromiseWithResolvers<void> | null = null;
  const mock = new LLMock({ port: 0, host: '127.0.0.1', chunkSize: 5 });
  mock.on({ predicate: () => true }, async (request: ChatCompletionRequest) => {
    const text = JSON.stringify(request.messages);
    seen.push(text);
    const task = text.match(/TASK-\w+/g)?.at(-1) ?? '';
    const isAgent = (request.tools ?? []).length > 0;
    if (task === 'TASK-hold' && isAgent && gate !== null) {
      arrived.resolve();
      await gate.promise;
    }
    return replyTo(task, request);
  });
  await mock.start();
  return {
    url: mock.url,
    mentions: (words) => seen.filter((text) => text.includes(words)).length,
    hold() {
      arrived = Promise.withResolvers();
      gate = Promise.withResolvers();
    },
    held: () => arrived.promise,
    release() {
      gate?.resolve();
      gate = null;
    },
    async stop() {
      gate?.resolve();
      await mock.stop();
    },
  };
}

function replyTo(task: string, { messages, tools }: ChatCompletionRequest): FixtureResponse {
  const done = messages.at(-1)?.role === 'tool';
  const named = (ending: RegExp) =>
    (tools ?? []).map(({ function: { name } }) => name).find((name) => ending.test(name));
  const say = named(/conch.*say$/) ?? named(/^say$/);
  const shell = named(/^(?:bash|Bash|run_shell_command|shell)$/);
  const call = (name: string, input: object): FixtureResponse => ({
    toolCalls: [{ name, arguments: JSON.stringify(input), id: `call-${(calls += 1)}` }],
  });
  const search = named(/^ToolSearch$/);
  const isSaid = JSON.stringify(messages).includes('Said by a tool.');
  if (task === 'TASK-say' && !isSaid && say !== undefined) return call(say, { text: 'Said by a tool.' });
  if (task === 'TASK-say' && !done && search !== undefined) return call(search, { query: 'select:mcp__conch__say' });
  if (task === 'TASK-shell' && !done && shell !== undefined) {
    return call(shell, { command: 'touch made-by-agent', description: 'Make a file' });
  }
  return { content: task === 'TASK-plain' ? 'A plain answer.' : 'Done.' };
}

let calls = 0;
