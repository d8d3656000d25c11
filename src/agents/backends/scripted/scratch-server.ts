import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { z } from 'zod';

// The demo's server of tools: notes in one folder, which is its argument.
const [, , folder = '.'] = process.argv;
const name = z.string().regex(/^\w[\w-]{0,40}\.txt$/, 'Expected a name such as "note.txt"');
const server = new McpServer({ name: 'scratch', version: '1' });

const reads = { readOnlyHint: true, openWorldHint: false };
const changes = { readOnlyHint: false, destructiveHint: false, openWorldHint: false };
const said = (text: string) => ({ content: [{ type: 'text' as const, text }] });

server.registerTool('list_files', { description: 'Lists the notes.', inputSchema: {}, annotations: reads }, () =>
  said(files().join('\n') || 'There are none.'),
);
server.registerTool(
  'read_file',
  { description: 'Reads a note.', inputSchema: { name }, annotations: reads },
  ({ name: wanted }) =>
    said(files().includes(wanted) ? readFileSync(join(folder, wanted), 'utf8') : 'There is no such note.'),
);
server.registerTool(
  'write_file',
  { description: 'Writes a note.', inputSchema: { name, text: z.string().max(10_000) }, annotations: changes },
  ({ name: wanted, text }) => {
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, wanted), text);
    return said(`${wanted} is written.`);
  },
);
server.registerTool(
  'delete_file',
  { description: 'Deletes a note.', inputSchema: { name }, annotations: { ...changes, destructiveHint: true } },
  ({ name: wanted }) => {
    rmSync(join(folder, wanted), { force: true });
    return said(`${wanted} is deleted.`);
  },
);
server.registerTool(
  'break_off',
  { description: 'Ends this server in the middle of the call.', inputSchema: {}, annotations: changes },
  () => process.exit(1),
);
await server.connect(new StdioServerTransport());

function files(): readonly string[] {
  mkdirSync(folder, { recursive: true });
  return readdirSync(folder).filter((each) => name.safeParse(each).success);
}
