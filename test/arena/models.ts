import { z } from 'zod';
import type { ArenaTime } from './time.ts';

/** A request to an agent's model. */
export type Asked = {
  readonly agent: string;
  /** The number of earlier requests to this agent's model. */
  readonly before: number;
  readonly system: string;
  readonly messages: readonly Spoken[];
  /** Everything said so far that the model can see, including its own texts. */
  readonly all: string;
  /** Everything that the model was told since it last spoke. */
  readonly last: string;
};

/** A message of a request. */
export type Spoken = { readonly role: string; readonly content: string };

/** A model's answer: a text, perhaps streamed over `overMs`; a refusal; or `null`, which never answers. */
export type Reply =
  | string
  | { readonly text: string; readonly overMs: number }
  | { readonly status: number; readonly retryAfter?: number }
  | null;

/** A function that answers in place of a model. */
export type Mind = (asked: Asked) => Reply;

/** A model service in this process, behind the `fetch` of the backend. Keeps every request. */
export class Models {
  readonly requests: Asked[] = [];
  readonly #time: ArenaTime;
  readonly #mind: Mind;

  constructor(time: ArenaTime, mind: Mind) {
    this.#time = time;
    this.#mind = mind;
  }

  readonly fetch: typeof globalThis.fetch = async (_url, init) => {
    const time = this.#time;
    const body = request.parse(typeof init?.body === 'string' ? JSON.parse(init.body) : null);
    const asked = this.#asked(body);
    this.requests.push(asked);
    time.moved += 1;
    const signal = init?.signal ?? new AbortController().signal;
    const reply = this.#mind(asked);
    if (reply === null) return await new Promise<never>((_resolve, reject) => rejectOn(signal, reject));
    if (typeof reply === 'object' && 'status' in reply) return refusal(reply);
    return this.#answer(typeof reply === 'string' ? { text: reply, overMs: 0 } : reply, asked, signal);
  };

  #asked({ model, messages }: z.output<typeof request>): Asked {
    const spoken = messages.filter(({ role }) => role !== 'system');
    return {
      agent: model,
      before: this.requests.filter(({ agent }) => agent === model).length,
      system: messages.find(({ role }) => role === 'system')?.content ?? '',
      messages: spoken,
      all: spoken.map(({ content }) => content).join('\n'),
      last: spoken
        .slice(spoken.findLastIndex(({ role }) => role === 'assistant') + 1)
        .map(({ content }) => content)
        .join('\n'),
    };
  }

  async #wait(ms: number, signal: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const timer = this.#time.timers.after(ms, resolve);
    rejectOn(signal, reject);
    await promise.finally(() => timer.cancel());
  }

  /** The answer as a stream, a few words at a time. */
  #answer({ text, overMs }: Extract<Reply, { text: string }>, asked: Asked, signal: AbortSignal): Response {
    const time = this.#time;
    const pieces = text.match(/\S+\s*(?:\S+\s*){0,3}/gu) ?? [text];
    const chunk = (delta: object, finish: string | null) => ({ choices: [{ index: 0, delta, finish_reason: finish }] });
    const usage = { prompt_tokens: tokensOf(asked), completion_tokens: Math.ceil(text.length / 4) };
    const frames = [
      ...pieces.map((content) => chunk({ role: 'assistant', content }, null)),
      chunk({}, 'stop'),
      { choices: [], usage: { ...usage, total_tokens: usage.prompt_tokens + usage.completion_tokens } },
    ];
    const encoder = new TextEncoder();
    time.answering += 1;
    let open = true;
    const end = () => {
      if (open) time.answering -= 1;
      open = false;
      time.moved += 1;
    };
    const stream = new ReadableStream<Uint8Array>({
      start: (controller) => signal.addEventListener('abort', () => (end(), controller.error(signal.reason))),
      pull: async (controller) => {
        const frame = frames.shift();
        if (overMs > 0 && open) {
          time.answering -= 1;
          await this.#wait(overMs / pieces.length, signal).catch(() => undefined);
          time.answering += 1;
        }
        time.moved += 1;
        if (!open) return;
        const line = frame === undefined ? '[DONE]' : JSON.stringify({ id: 'a', object: OBJECT, created: 0, ...frame });
        controller.enqueue(encoder.encode(`data: ${line}\n\n`));
        if (frame !== undefined) return;
        end();
        controller.close();
      },
      cancel: end,
    });
    return new Response(stream, { headers: { 'Content-Type': 'text/event-stream' } });
  }
}

/** The length of a request in tokens, at four characters per token. */
export function tokensOf({ system, messages }: Asked): number {
  return Math.ceil(messages.reduce((sum, { content }) => sum + content.length, system.length) / 4);
}

const OBJECT = 'chat.completion.chunk';
const request = z.object({
  model: z.string(),
  messages: z.array(
    z.object({
      role: z.string(),
      content: z
        .string()
        .nullish()
        .transform((text) => text ?? ''),
    }),
  ),
});

function refusal({ status, retryAfter }: { readonly status: number; readonly retryAfter?: number }): Response {
  const headers = {
    'Content-Type': 'application/json',
    ...(retryAfter !== undefined && { 'Retry-After': `${retryAfter}` }),
  };
  return new Response(JSON.stringify({ error: { message: `the service says ${status}` } }), { status, headers });
}

function rejectOn(signal: AbortSignal, reject: (reason: unknown) => void): void {
  if (signal.aborted) reject(signal.reason);
  else signal.addEventListener('abort', () => reject(signal.reason), { once: true });
}
