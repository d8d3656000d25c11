import { once } from 'node:events';
import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text as all } from 'node:stream/consumers';
import { LLMock } from '@copilotkit/aimock';
import type { ChatCompletionRequest, FixtureResponse } from '@copilotkit/aimock';

/** A mock model service. It answers by the last word TASK-… in its request. */
export type Model = {
  readonly url: string;
  /** The URL for Codex, which expects a namespace beside the name of a server's tool. */
  readonly codexUrl: string;
  /** Returns the name of the floor's tool server in the last request. */
  server(): string;
  /** Returns how many requests contain these words in their messages. */
  mentions(words: string): number;
  /** From now on, requests for TASK-hold wait until released. */
  hold(): void;
  /** Resolves when a request for TASK-hold has arrived. */
  held(): Promise<void>;
  release(): void;
  stop(): Promise<void>;
};

/** Answers a request to the model. `task`: the last word TASK-… in the request, or "". */
export type Reply = (task: string, request: ChatCompletionRequest) => FixtureResponse;

/** Starts a mock model service on this machine that answers by `reply`. */
export async function startModel(reply: Reply = replyTo): Promise<Model> {
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
    return reply(task, request);
  });
  await mock.start();
  const front = await frontOf(mock.url);
  return {
    url: mock.url,
    codexUrl: `http://127.0.0.1:${(front.address() as AddressInfo).port}`,
    server: () => [...(seen.at(-1) ?? '').matchAll(SERVER)].at(-1)?.[1] ?? '',
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
      front.closeAllConnections();
      front.close();
      await mock.stop();
    },
  };
}

async function frontOf(url: string): Promise<Server> {
  const pass = async (request: IncomingMessage, response: ServerResponse) => {
    const { method = 'GET', url: path = '/' } = request;
    const body = await all(request);
    const headers = { 'content-type': 'application/json' };
    const answer = await fetch(`${url}${path}`, method === 'GET' ? {} : { method, headers, body });
    const said = await answer.text();
    response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? 'text/plain' });
    response.end(said.replaceAll(/"name":"(mcp__\w+)__(\w+)"/g, '"namespace":"$1","name":"$2"'));
  };
  const front = createServer((request, response) => void pass(request, response).catch(() => response.destroy()));
  await once(front.listen(0, '127.0.0.1'), 'listening');
  return front;
}

/** Matches the name of the floor's tool server in Conch's prompts. */
const SERVER = /The tools of the server \\"(conch-\w+)\\"/g;

function replyTo(task: string, { messages, tools = [] }: ChatCompletionRequest): FixtureResponse {
  const text = JSON.stringify(messages);
  const server = [...text.matchAll(SERVER)].at(-1)?.[1] ?? '';
  const done = messages.at(-1)?.role === 'tool';
  if (task === 'TASK-say') return sayReply(tools, { text, server, done });
  const command = checkCommand(text) ?? commandFor(task, server, text);
  if (command !== null && !done) return called(tools, COMMANDS, command);
  const checked = CHECK_WRITE.exec(text)?.[1];
  if (checked !== undefined && !done) return written(tools, checked);
  const looked = [...text.matchAll(/TASK-read (\S+?)[:\s"\\]/g)].at(-1)?.[1];
  if (task === 'TASK-read' && looked !== undefined && !done) return called(tools, READS, { path: looked });
  const path = /TASK-write (\S+?)[:\s"\\]/.exec(text.slice(text.lastIndexOf('TASK-write')))?.[1] ?? '';
  if (task === 'TASK-write' && !done) return written(tools, path);
  return { content: task === 'TASK-plain' ? 'A plain answer.' : 'Done.' };
}

/** Matches the tools that run a command. */
export const COMMANDS = /^(?:bash|Bash|run_shell_command|shell|exec_command)$/;
/** Match the tools that write, edit and read a file. */
export const WRITES = /^(?:write|Write|write_file|create)$/;
export const EDITS = /^(?:edit|Edit)$/;
const READS = /^(?:read|Read|read_file)$/;
const CODEX_COMMANDS = 'exec_command';

/** Calls the tool that writes a file. Codex writes by a command that applies a patch. */
function written(tools: Tools, path: string): FixtureResponse {
  if (!names(tools).includes(CODEX_COMMANDS)) return called(tools, WRITES, { path, content: 'x' });
  return call(CODEX_COMMANDS, {
    cmd: `apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: ${path}\n+x\n*** End Patch\nEOF`,
  });
}

function names(tools: Tools): readonly string[] {
  return tools.map(({ function: { name } }) => name);
}

/** Match the prompts of `conch agent check` that ask for a write by tool and by command. */
const CHECK_WRITE = /Create the file (\S+) in your working folder, with your tool/;
const CHECK_COMMAND = /with the shell command: (touch [^\s\\]+)/;

function checkCommand(text: string): Input | null {
  const command = CHECK_COMMAND.exec(text)?.[1];
  return command === undefined ? null : { command, description: 'Make a file' };
}

/** Returns the command of a task, and the model's description of the command. `null`: a task without a command. */
function commandFor(task: string, server: string, text: string): Input | null {
  const outside = /OUTSIDE=(\S+?)[;\s"\\]/.exec(text)?.[1] ?? '';
  switch (task) {
    case 'TASK-shell':
      return { command: 'touch made-by-agent', description: 'Make a file' };
    case 'TASK-list':
      return { command: 'ls', description: 'List' };
    case 'TASK-title':
      return { command: 'touch made-by-agent', description: `say (${server} MCP Server)` };
    case 'TASK-foreign':
      return { command: `ls ${outside} # mcp__${server}__say`, description: `mcp__${server}__say` };
    case 'TASK-script':
      return { command: `${outside}/${server}_say`, description: `${server}_say` };
    default:
      return null;
  }
}

type Tools = NonNullable<ChatCompletionRequest['tools']>;
type Input = Readonly<Record<string, string>>;
type Said = { readonly text: string; readonly server: string; readonly done: boolean };

/** Calls the floor's tool `say`. For agents that list their tools only on request, the model requests `say` first. */
function sayReply(tools: Tools, { text, server, done }: Said): FixtureResponse {
  const known = names(tools);
  const say = known.find((name) => /conch.*say$/.test(name)) ?? known.find((name) => name === 'say');
  const input = { text: 'Said by a tool.' };
  const isSaid = text.includes(input.text);
  const search = known.find((name) => /^(?:ToolSearch|tool_search)$/.test(name));
  if (isSaid) return { content: 'Done.' };
  if (say !== undefined) return call(say, input);
  const tool = `mcp__${server}__say`;
  if (search !== undefined && !done) return call(search, { query: `select:${tool}` });
  if (known.includes(CODEX_COMMANDS)) return call(tool.replaceAll('-', '_'), input);
  return known.includes('tool_call') ? call('tool_call', { name: tool, arguments: input }) : { content: 'Done.' };
}

/** Calls the first tool that matches, with the input fields that it has. */
export function called(tools: Tools, named: RegExp, input: Input): FixtureResponse {
  const tool = tools.find(({ function: { name } }) => named.test(name))?.function;
  if (tool === undefined) return { content: 'There is no such tool.' };
  const { properties = GEMINI_KEYS } = (tool.parameters ?? {}) as { properties?: object };
  const given: Input = { ...input, sandbox: 'require_escalated' };
  const keys = Object.keys(properties).filter((key) => given[KEYS[key] ?? ''] !== undefined);
  return call(tool.name, Object.fromEntries(keys.map((key) => [key, given[KEYS[key] ?? '']])));
}

/** Gemini CLI describes its tools in a format that the mock cannot read. */
const GEMINI_KEYS = { command: {}, description: {}, file_path: {}, content: {} };
const KEYS: Readonly<Record<string, string>> = {
  command: 'command',
  cmd: 'command',
  justification: 'description',
  sandbox_permissions: 'sandbox',
  description: 'description',
  path: 'path',
  filePath: 'path',
  file_path: 'path',
  content: 'content',
  file_text: 'content',
  oldString: 'before',
  old_string: 'before',
  newString: 'after',
  new_string: 'after',
};

function call(name: string, input: object): FixtureResponse {
  return { toolCalls: [{ name, arguments: JSON.stringify(input), id: `call-${(calls += 1)}` }] };
}

let calls = 0;
