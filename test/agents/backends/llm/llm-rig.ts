import { LLMock } from '@copilotkit/aimock';
import type { ChatCompletionRequest, FixtureResponse } from '@copilotkit/aimock';
import { createLlmBackend } from '../../../../src/agents/backends/llm/llm-backend.ts';
import type { LlmOptions } from '../../../../src/agents/backends/llm/llm-backend.ts';
import type { Act, Rig } from '../contract.ts';

type Reply = { readonly response: FixtureResponse; readonly waits: 'no' | 'released' | 'for ever' };

/** Creates a rig whose model of this provider is a mock service on this machine. `answer` sets its next replies. */
export async function llmRig(
  provider: LlmOptions['provider'],
  more: Partial<LlmOptions> = {},
): Promise<Rig & { mock: LLMock; answer: (...responses: readonly FixtureResponse[]) => void }> {
  const replies: Reply[] = [];
  const seen: string[] = [];
  const gates: (() => void)[] = [];
  const ended = Promise.withResolvers<void>();
  let arrived = Promise.withResolvers<void>();
  const mock = new LLMock({ port: 0, host: '127.0.0.1', chunkSize: 1 });
  mock.on({ predicate: () => true }, async (request: ChatCompletionRequest) => {
    seen.push(
      request.messages
        .map(({ content }) => (typeof content === 'string' ? content : JSON.stringify(content)))
        .join('\n'),
    );
    const reply = replies.shift() ?? { response: { content: 'Noted.' }, waits: 'no' };
    if (reply.waits !== 'no') {
      const gate = Promise.withResolvers<void>();
      if (reply.waits === 'released') gates.push(gate.resolve);
      arrived.resolve();
      await Promise.race([gate.promise, ended.promise]);
    }
    return reply.response;
  });
  await mock.start();
  return {
    mock,
    backend: createLlmBackend({
      provider,
      model: 'test-model',
      apiKey: 'k',
      baseUrl: `${mock.url}/v1`,
      fetch: unkept,
      stepTimeoutMs: 20_000,
      ...more,
    }),
    inject: 'injected',
    crash: /^the model's service failed \(500\): it burns/,
    play: (...acts) => void replies.push(...repliesOf(acts)),
    answer: (...responses) => void replies.push(...responses.map((response) => ({ response, waits: 'no' as const }))),
    async paused() {
      await arrived.promise;
      arrived = Promise.withResolvers();
    },
    release: () => gates.splice(0).forEach((open) => open()),
    seen: async () => seen,
    async stop() {
      ended.resolve();
      await mock.stop();
    },
  };
}

/** Returns one reply of the model for each of its steps. A floor tool ends a step. */
function repliesOf(acts: readonly Act[]): readonly Reply[] {
  const replies: Reply[] = [];
  let content = '';
  let waits: Reply['waits'] = 'no';
  const add = (response: FixtureResponse) => {
    replies.push({ response, waits });
    content = '';
    waits = 'no';
  };
  const call = (name: string, input: object) =>
    add({ content, toolCalls: [{ name, arguments: JSON.stringify(input), id: `call-${(calls += 1)}` }] });
  for (const act of acts) {
    if (act.do === 'write') content += act.text;
    else if (act.do === 'pause') waits = 'released';
    else if (act.do === 'hang') waits = 'for ever';
    else if (act.do === 'crash') add({ error: { message: 'it burns\nand burns' }, status: 500 });
    else if (act.do === 'say') call('say', { text: act.text });
    else if (act.do === 'wait_for') call('wait_for', { question: act.question });
    else if (act.do === 'hand_to') call('hand_to', { agent: act.agent });
    else if (act.do === 'pass') call('pass', {});
    else throw new Error('impossible: a model asks for no permission');
  }
  if (content !== '' || waits !== 'no') add({ content });
  return replies;
}

/** Closes each connection, because the mock waits for open connections when it stops. */
const unkept: typeof fetch = async (url, init) => {
  const headers = new Headers(init?.headers);
  headers.set('connection', 'close');
  return await fetch(url, { ...init, headers });
};

let calls = 0;
