import { appendFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

// The demo's tools. Each call is a line in a file, so that it can be counted, and is answered a while after it was done, so that a
// kill comes in between: `node counting-server.ts FILE`.
const [, , file = ''] = process.argv;
const ANSWER_MS = 60;

const tool = (name: string, annotations: object) => ({
  name,
  annotations: { openWorldHint: false, ...annotations },
  inputSchema: { type: 'object' },
});
const tools = [
  tool('read_file', { readOnlyHint: true }),
  tool('write_file', { destructiveHint: false }),
  tool('delete_file', { destructiveHint: true }),
];

type Message = { readonly id?: unknown; readonly method?: string; readonly params?: Params };
type Params = { readonly protocolVersion?: string; readonly name?: string; readonly _meta?: object };

const send = (message: object): void =>
  void process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);

function answer({ method, params: { protocolVersion, name, _meta: meta } = {} }: Message): object | null {
  if (method === 'initialize')
    return { protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'counting', version: '1' } };
  if (method === 'tools/list') return { tools };
  if (method !== 'tools/call') return method === 'ping' ? {} : null;
  appendFileSync(file, `${JSON.stringify({ tool: name, ...meta })}\n`);
  return { content: [{ type: 'text', text: 'Done, and counted.' }] };
}

createInterface({ input: process.stdin }).on('line', (line) => {
  const message = JSON.parse(line) as Message;
  if (message.id === undefined) return;
  const result = answer(message);
  const failed = { error: { code: -32_601, message: 'Method not found' } };
  const whole = { id: message.id, ...(result === null ? failed : { result }) };
  if (message.method === 'tools/call') setTimeout(() => send(whole), ANSWER_MS);
  else send(whole);
});
process.stdin.on('end', () => process.exit(0));
