import { fileURLToPath } from 'node:url';
import type { ElicitRequestParams } from '@modelcontextprotocol/client';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { askPeople } from '../../../src/agents/mcp/elicitation.ts';
import { CallTime } from '../../../src/agents/mcp/mcp-connection.ts';
import type { McpCall } from '../../../src/agents/mcp/mcp-connection.ts';
import { McpServer } from '../../../src/agents/mcp/mcp-server.ts';
import { serverSchema } from '../../../src/config/schema.ts';
import type { CallResult, GatedCall, GateVerdict } from '../../../src/agents/tools/tool-gate.ts';
import { gateThat } from '../backends/conversation.ts';
import { createTime } from '../time.ts';
import { mcpPorts, toolNamed, toolsServer } from './mcp-rig.ts';

const never = new AbortController().signal;

const CALL: GatedCall = {
  id: 'c1',
  tool: 'mcp__github__create_issue',
  input: { repo: 'acme/web' },
  definition: 'd1',
  repeatable: false,
  detail: '',
  caution: null,
};

const no = (code: 'DENIED' | 'CANCELLED'): GateVerdict => ({ verdict: 'refused', code, words: '' });

/** Puts a question to people, who give `answers` in order. Returns the answer to the server, and the gate's calls. */
async function asked(params: ElicitRequestParams, ...answers: readonly (string | GateVerdict)[]) {
  const { ask, calls, settled } = people(...answers);
  return { result: await askPeople(params, { ...ask, number: 1 }), calls, settled };
}

/** People who give `answers` in order. */
function people(...answers: readonly (string | GateVerdict)[]) {
  const left = [...answers];
  const calls: GatedCall[] = [];
  const settled: CallResult[] = [];
  const gate = {
    ...gateThat(() => 'reject'),
    ask: async (call: GatedCall): Promise<GateVerdict> => {
      calls.push(call);
      const next = left.shift() ?? no('CANCELLED');
      return typeof next === 'string' ? { verdict: 'go', words: next } : next;
    },
    settled: async (_call: GatedCall, result: CallResult) => void settled.push(result),
  };
  return { ask: { gate, call: CALL, redact: (text: string) => text, withdrawn: never }, calls, settled };
}

type Schema = Extract<ElicitRequestParams, { requestedSchema: unknown }>['requestedSchema'];

const form = (properties: Schema['properties'], required: string[] = []): ElicitRequestParams => ({
  message: 'Which one?',
  requestedSchema: { type: 'object', properties, required },
});

const ISSUE = form(
  {
    title: { type: 'string', minLength: 3, description: 'What it is about' },
    kind: {
      type: 'string',
      oneOf: [
        { const: 'b', title: 'Bug' },
        { const: 'f', title: 'Feature' },
      ],
    },
    labels: { type: 'array', items: { type: 'string', enum: ['ui', 'api'] }, maxItems: 1 },
    votes: { type: 'integer', minimum: 1, maximum: 5, default: 2 },
    urgent: { type: 'boolean' },
    mail: { type: 'string', format: 'email' },
  },
  ['title'],
);

const PLAIN = { hint: '', required: false, options: [] };
const [B, F] = [
  { value: 'b', label: 'Bug' },
  { value: 'f', label: 'Feature' },
];
const [UI, API] = [
  { value: 'ui', label: 'ui' },
  { value: 'api', label: 'api' },
];

describe('a form from a server', () => {
  test('is put to people completely, with the tool and the input of its call', async () => {
    const { calls } = await asked(ISSUE);
    expect(calls).toMatchObject([
      {
        id: 'c1/1',
        tool: 'mcp__github__create_issue',
        title: 'github asks: Which one?',
        caution: 'github asks this question while the call runs',
        accounts: [{ name: 'mcp__github__create_issue', input: { repo: 'acme/web' } }],
        answer: 'title=… kind=b labels=ui votes=… urgent=yes mail=…',
      },
    ]);
    expect(calls[0]?.detail.split('\n')).toEqual([
      'Which one?',
      '',
      'title (required, text, at least 3 characters): What it is about',
      'kind (may be left out, one of b (Bug), f (Feature))',
      'labels (may be left out, some of ui, api, at most 1 of them)',
      'votes (may be left out, a whole number, at least 1, at most 5, "2" if left out)',
      'urgent (may be left out, yes or no)',
      'mail (may be left out, email)',
    ]);
  });

  test('has its fields as data, so that a platform can draw them', async () => {
    const { calls } = await asked(ISSUE);
    expect(calls[0]?.form).toEqual([
      {
        name: 'title',
        label: 'title',
        hint: 'What it is about',
        kind: 'text',
        required: true,
        options: [],
        least: 3,
      },
      { ...PLAIN, name: 'kind', label: 'kind', kind: 'one', options: [B, F] },
      { ...PLAIN, name: 'labels', label: 'labels', kind: 'some', options: [UI, API], most: 1 },
      { ...PLAIN, name: 'votes', label: 'votes', kind: 'integer', least: 1, most: 5, initial: '2' },
      { ...PLAIN, name: 'urgent', label: 'urgent', kind: 'boolean' },
      { ...PLAIN, name: 'mail', label: 'mail', kind: 'text', format: 'email' },
    ]);
  });

  test.each([
    ['title=Broken link', { title: 'Broken link', votes: 2 }],
    [
      'title="Broken", kind=feature; labels=API votes=5 urgent=yes mail=ann@example.org',
      { title: 'Broken', kind: 'f', labels: ['api'], votes: 5, urgent: true, mail: 'ann@example.org' },
    ],
  ])('is filled in by the answer %s', async (words, content) => {
    const { result, settled } = await asked(ISSUE, words);
    expect(result).toEqual({ action: 'accept', content });
    expect(settled).toMatchObject([{ status: 'complete', output: JSON.stringify(content) }]);
  });

  test('is cancelled by an answer that does not fill it in', async () => {
    const { result, settled } = await asked(ISSUE, 'votes=6');
    expect(result).toEqual({ action: 'cancel' });
    expect(settled).toMatchObject([{ status: 'error', output: expect.stringContaining('title: it is missing') }]);
  });

  test('is declined after ten others in its call, the first of those with a reason for people', async () => {
    const { ask, calls } = people(...Array.from({ length: 10 }, () => 'title=Crash'), no('DENIED'), 'title=Crash');
    const actions: string[] = [];
    for (let number = 1; number <= 13; number += 1) actions.push((await askPeople(ISSUE, { ...ask, number })).action);
    expect(actions).toEqual([...Array.from({ length: 10 }, () => 'accept'), 'decline', 'decline', 'decline']);
    expect(calls.map(({ unaskable }) => unaskable)).toEqual([
      ...Array.from({ length: 10 }, () => undefined),
      'its server has asked 10 questions in this call',
    ]);
    expect(new Set(calls.map(({ id }) => id)).size).toBe(calls.length);
  });

  test('is declined by a denial, and cancelled without a decision', async () => {
    expect((await asked(ISSUE, no('DENIED'))).result).toEqual({ action: 'decline' });
    expect((await asked(ISSUE, no('CANCELLED'))).result).toEqual({ action: 'cancel' });
  });

  test.each([
    ['password', 'string'],
    ['apiKey', 'string'],
    ['access_token', 'string'],
    ['value', 'string', 'Your GitHub token'],
    ['value', 'string', 'The PIN of your card'],
  ] as const)('that wants a secret (%s) is put to nobody', async (name, type, description?: string) => {
    const { calls } = await asked(form({ [name]: { type, ...(description === undefined ? {} : { description }) } }));
    expect(calls[0]?.unaskable).toMatch(/looks like a secret/);
  });

  test.each([
    ['value', 'integer', 'The PIN of your card'],
    ['otp', 'number', 'It came by mail'],
  ] as const)('that wants a secret number (%s) is put to nobody', async (name, type, description) => {
    const { calls } = await asked(form({ [name]: { type, description } }));
    expect(calls[0]?.unaskable).toMatch(/looks like a secret/);
  });

  test.each([
    ['name', { ['na\u200Bme']: { type: 'string' } }],
    ['choice', { colour: { type: 'string', enum: ['red\u202E'] } }],
  ] as const)('with invisible characters in a %s is put to nobody', async (_what, properties) => {
    const { calls } = await asked(form(properties));
    expect(calls[0]?.unaskable).toMatch(/with invisible characters or secrets/);
  });

  test('may ask for a number named "tokens", and for a choice named "key"', async () => {
    const keys = { type: 'string', enum: ['api-key-1', 'api-key-2'] } as const;
    const { calls } = await asked(form({ tokens: { type: 'integer' }, key: keys }));
    expect(calls[0]?.unaskable).toBeUndefined();
  });
});

describe('a link from a server', () => {
  const link = (url: string): ElicitRequestParams => ({ mode: 'url', message: 'Sign in', elicitationId: 'e1', url });

  test('is shown with the host that it leads to', async () => {
    const { calls, result } = await asked(link('https://github.com@evil.example/login?a=1'), 'done');
    expect(calls[0]?.detail).toBe(
      'Sign in\n\nThe server wants you to do that at evil.example:\nhttps://github.com@evil.example/login?a=1',
    );
    expect(result).toEqual({ action: 'accept', content: {} });
    expect((await asked(link('https://gіthub.com/'), '')).calls[0]?.detail).toContain('xn--');
  });

  test('with another scheme than http(s) is shown to nobody', async () => {
    const { calls } = await asked(link('file:///etc/passwd'));
    expect(calls[0]?.unaskable).toBe('its link is no address of the web');
  });
});

const servers: McpServer[] = [];
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});

function started(config: ConstructorParameters<typeof McpServer>[1]) {
  const rig = mcpPorts();
  const server = new McpServer('raw', config, rig.ports);
  servers.push(server);
  const call = (name: string, more: Partial<McpCall> = {}) =>
    server.call(toolNamed(name), { id: '1', input: { ...ISSUE }, stopped: never, progressed() {}, ...more });
  return { server, call, ...rig };
}

describe('a server', () => {
  test('that may ask gets the answer in its call, whose timeout is suspended meanwhile', async () => {
    const { call, time } = started(toolsServer(['tool=ask'], { elicitation: true, timeoutSeconds: 10 }));
    const answered = Promise.withResolvers<{ action: 'decline' }>();
    const heard: ElicitRequestParams[] = [];
    const over = call('ask', { ask: (params) => (heard.push(params), answered.promise) });
    await vi.waitFor(() => expect(heard).toMatchObject([{ message: 'Which one?' }]), { timeout: 60_000 });
    await time.advance(700_000);
    answered.resolve({ action: 'decline' });
    expect((await over).text).toBe('{"action":"decline"}');
  });

  test('that may not ask gets the error "Method not found"', async () => {
    const { call } = started(toolsServer(['tool=ask']));
    const heard: unknown[] = [];
    const { text } = await call('ask', { ask: async (params) => (heard.push(params), { action: 'accept' }) });
    expect([heard, text]).toEqual([[], expect.stringContaining('Method not found')]);
  });

  test('that asks during several calls gets no answer, because the right people are unknown', async () => {
    const { call } = started(toolsServer(['tool=ask', 'tool=hang'], { elicitation: true }));
    const stop = new AbortController();
    const hanging = call('hang', { stopped: stop.signal });
    expect((await call('ask', { ask: async () => ({ action: 'accept' }) })).text).toBe('{"action":"cancel"}');
    stop.abort();
    await hanging;
  });

  test('that continues without the answer withdraws its question', async () => {
    const { call } = started(toolsServer(['tool=impatient'], { elicitation: true }));
    const withdrawn = Promise.withResolvers<void>();
    const { text } = await call('impatient', {
      ask: async (_params, signal) => {
        if (signal.aborted) withdrawn.resolve();
        signal.addEventListener('abort', () => withdrawn.resolve());
        await withdrawn.promise;
        return { action: 'cancel' };
      },
    });
    expect(text).toBe('never mind');
    await withdrawn.promise;
  });
});

describe('the reference server "everything"', () => {
  const bin = fileURLToPath(import.meta.resolve('@modelcontextprotocol/server-everything/dist/index.js'));
  const everything = (elicitation: boolean) => {
    const config = serverSchema.parse({ command: process.execPath, args: [bin], elicitation });
    return started(config);
  };

  test('asks with its form, and gets the answers', async () => {
    const { call } = everything(true);
    const gate = {
      ...gateThat(() => 'allow'),
      ask: async (): Promise<GateVerdict> => ({ verdict: 'go', words: 'name=Ann Lee check=yes birthdate=1990-02-03' }),
    };
    const { text, code } = await call('trigger-elicitation-request', {
      input: {},
      ask: (params, withdrawn) => askPeople(params, { gate, call: CALL, number: 1, redact: (each) => each, withdrawn }),
    });
    expect(code).toBe(null);
    expect(text).toContain('Ann Lee');
    expect(text).toContain('1990-02-03');
  });

  test('lists no tool that asks people unless its configuration sets `elicitation`', async () => {
    const names = async (may: boolean) => (await everything(may).server.tools()).map(({ name }) => name);
    expect(await names(true)).toContain('trigger-elicitation-request');
    expect(await names(false)).not.toContain('trigger-elicitation-request');
  });
});

test('a call gets back the time that people took, counted once for questions open at the same time', async () => {
  const time = createTime();
  const call = new CallTime(400_000, mcpPorts(time).ports);
  const questions = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const asking = questions.map(({ promise }) => call.still(() => promise));
  await time.advance(300_000);
  for (const { resolve } of questions) resolve();
  await Promise.all(asking);
  await time.advance(390_000);
  call.renew();
  await time.advance(210_000);
  expect(call.over.aborted).toBe(true);
});
