import { LLMock } from '@copilotkit/aimock';
import type { ChatCompletionRequest, FixtureResponse } from '@copilotkit/aimock';

/** A model's service on this machine that answers by the words TASK-… of the newest message, and holds back on TASK-hold. */
export type Model = {
  readonly url: string;
  /** How many requests mention these words. */
  mentions(words: string): number;
  /** Resolves when a request for TASK-hold has come. */
  held(): Promise<void>;
  release(): void;
  stop(): Promise<void>;
};

/** Starts the service. */
export async function startModel(): Promise<Model> {
  const seen: string[] = [];
  let arrived = Promise.withResolvers<void>();
  let gate = Promise.withResolvers<void>();
  const mock = new LLMock({ port: 0, host: '127.0.0.1', chunkSize: 5 });
  mock.on({ predicate: () => true }, async (request: ChatCompletionRequest) => {
    const text = JSON.stringify(request.messages);
    seen.push(text);
    const task = text.match(/TASK-\w+/g)?.at(-1) ?? '';
    const isAgent = (request.tools ?? []).length > 0;
    if (task === 'TASK-hold' && isAgent) {
      arrived.resolve();
      await gate.promise;
    }
    return replyTo(task, request);
  });
  await mock.start();
  return {
    url: mock.url,
    mentions: (words) => seen.filter((text) => text.includes(words)).length,
    async held() {
      await arrived.promise;
      arrived = Promise.withResolvers();
    },
    release() {
      gate.resolve();
      gate = Promise.withResolvers();
    },
    async stop() {
      gate.resolve();
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
  if (task === 'TASK-say' && !done && say !== undefined) return call(say, { text: 'Said by a tool.' });
  if (task === 'TASK-shell' && !done && shell !== undefined) {
    return call(shell, { command: 'touch made-by-agent', description: 'Make a file' });
  }
  return { content: task === 'TASK-plain' ? 'A plain answer.' : 'Done.' };
}

let calls = 0;
