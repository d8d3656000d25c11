import type { Json } from './json.ts';

/** The answer of a correct agent to a message; `null`: no answer. `session` names a new session. */
export function answerOf(message: unknown, session: () => string): Json {
  const { id, method } = message as { readonly id?: Json; readonly method?: string };
  if (id === undefined || method === undefined) return null;
  const result = RESULTS[method] ?? {};
  return { jsonrpc: '2.0', id, result: method === 'session/new' ? { sessionId: session() } : result };
}

/** The session id of agents with a single session. */
export const SESSION = 'session-1';

const RESULTS: Readonly<Record<string, { readonly [key: string]: Json }>> = {
  initialize: {
    protocolVersion: 1,
    agentCapabilities: { mcpCapabilities: { http: true }, sessionCapabilities: { resume: {} } },
    authMethods: [],
  },
  'session/prompt': { stopReason: 'end_turn' },
};

const update = (body: Json): Json => ({
  jsonrpc: '2.0',
  method: 'session/update',
  params: { sessionId: SESSION, update: body },
});
const result = (id: number, value: Json): Json => ({ jsonrpc: '2.0', id, result: value });

/** Samples of agents' messages. */
export const AGENT_MESSAGES: readonly Json[] = [
  update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'Hello' }, messageId: 'm1' }),
  update({ sessionUpdate: 'agent_thought_chunk', content: { type: 'text', text: 'Hm' } }),
  update({
    sessionUpdate: 'tool_call',
    toolCallId: 't1',
    title: 'Look',
    kind: 'read',
    status: 'pending',
    rawInput: {},
  }),
  update({ sessionUpdate: 'tool_call_update', toolCallId: 't1', status: 'completed', locations: [{ path: '/a' }] }),
  update({ sessionUpdate: 'usage_update', used: 10, size: 100, cost: { amount: 0.1, currency: 'USD' } }),
  update({ sessionUpdate: 'plan', entries: [{ content: 'a', priority: 'high', status: 'pending' }] }),
  {
    jsonrpc: '2.0',
    id: 'p1',
    method: 'session/request_permission',
    params: {
      sessionId: SESSION,
      toolCall: { toolCallId: 't1', title: 'rm -rf' },
      options: [{ optionId: 'yes', name: 'Yes', kind: 'allow_once' }],
    },
  },
  { jsonrpc: '2.0', id: 7, method: 'fs/read_text_file', params: { sessionId: SESSION, path: '/etc/passwd' } },
  { jsonrpc: '2.0', method: '$/cancel_request', params: { requestId: 1 } },
  { jsonrpc: '2.0', id: 1, error: { code: -32_000, message: 'no', data: { why: 'x' } } },
  result(1, RESULTS['initialize'] ?? {}),
  result(2, { sessionId: SESSION, modes: { currentModeId: 'a', availableModes: [{ id: 'b' }] } }),
  result(3, { stopReason: 'end_turn', usage: { totalTokens: 5 } }),
  { jsonrpc: '2.0', id: null, result: null },
];

const asked = (id: Json, method: string, params: Json): Json => ({ jsonrpc: '2.0', id, method, params });

/** Samples of hosts' messages. */
export const HOST_MESSAGES: readonly Json[] = [
  asked(1, 'initialize', { protocolVersion: 1, clientCapabilities: {}, clientInfo: { name: 'a', version: '1' } }),
  asked(2, 'session/new', { cwd: '/', mcpServers: [{ type: 'http', name: 'a', url: 'http://a', headers: [] }] }),
  asked(3, 'session/resume', { sessionId: SESSION, cwd: '/', mcpServers: [] }),
  asked('4', 'session/prompt', { sessionId: SESSION, prompt: [{ type: 'text', text: 'Hello' }] }),
  asked(null, '_ping', {}),
  { jsonrpc: '2.0', method: 'session/cancel', params: { sessionId: SESSION } },
  { jsonrpc: '2.0', method: '$/cancel_request', params: { requestId: 2 } },
  result(7, { outcome: { outcome: 'selected', optionId: 'yes' } }),
  { jsonrpc: '2.0', id: 'p1', error: { code: 1, message: 'no' } },
];
