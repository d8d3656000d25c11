import { appendFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

// The demo's tools as an MCP server: `node counting-server.ts FILE`. Each call appends a line to FILE.
// It answers some time after the call is done, so that a kill can come in between.
// Asks people a form before every other reading. A filled form is a line, too.
const [, , file = ''] = process.argv;
const ANSWER_MS = 60;
/** The `tool` in the line of a form that people filled in. */
const FILLED = 'form';

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

type Message = {
  readonly id?: unknown;
  readonly method?: string;
  readonly params?: Params;
  readonly result?: { readonly action?: string; readonly content?: object };
};
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

const page = { type: 'integer', minimum: 1, maximum: 3 };
const form = { message: 'Which page?', requestedSchema: { type: 'object', properties: { page }, required: ['page'] } };
/** Continues a call after its form is answered, by the id of the question. */
const waiting = new Map<unknown, () => void>();
let readings = 0;

/** Asks a form before a call that has one. `goOn` runs after the answer. Returns false when nothing is asked. */
function asks({ method, params }: Message, goOn: () => void): boolean {
  if (method !== 'tools/call' || params?.name !== 'read_file' || (readings += 1) % 2 === 0) return false;
  const id = `form-${readings}`;
  waiting.set(id, goOn);
  send({ id, method: 'elicitation/create', params: form });
  return true;
}

function hear(message: Message): void {
  const { id, result: filled } = message;
  const goOn = waiting.get(id);
  if (goOn === undefined) return;
  waiting.delete(id);
  if (filled?.action === 'accept') appendFileSync(file, `${JSON.stringify({ tool: FILLED, ...filled.content })}\n`);
  goOn();
}

createInterface({ input: process.stdin }).on('line', (line) => {
  const message = JSON.parse(line) as Message;
  if (message.id === undefined) return;
  if (message.method === undefined) return hear(message);
  const reply = (): void => {
    const result = answer(message);
    const failed = { error: { code: -32_601, message: 'Method not found' } };
    const whole = { id: message.id, ...(result === null ? failed : { result }) };
    if (message.method === 'tools/call') setTimeout(() => send(whole), ANSWER_MS);
    else send(whole);
  };
  if (!asks(message, reply)) reply();
});
process.stdin.on('end', () => process.exit(0));
