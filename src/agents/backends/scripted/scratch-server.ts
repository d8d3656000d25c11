import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { McpServer } from '@modelcontextprotocol/server';
import { StdioServerTransport } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

// The demo's MCP server. Keeps notes as files in the folder that is its argument. Default: the working folder.
const [, , folder = '.'] = process.argv;
mkdirSync(folder, { recursive: true });
const name = z.string().regex(/^\w[\w-]{0,40}\.txt$/, 'Expected a name such as "note.txt"');
const text = z.string().max(10_000);
const files = () => readdirSync(folder).filter((file) => name.safeParse(file).success);
const reads = { readOnlyHint: true, openWorldHint: false };
const writes = { readOnlyHint: false, destructiveHint: false, openWorldHint: false };
const deletes = { ...writes, destructiveHint: true };

const server = new McpServer({ name: 'scratch', version: '1' });
const content = (result: string) => ({ content: [{ type: 'text' as const, text: result }] });
server.registerTool('list_files', { description: 'Lists the notes.', inputSchema: {}, annotations: reads }, () =>
  content(files().join('\n') || 'There are none.'),
);
server.registerTool('read_file', { description: 'Reads a note.', inputSchema: { name }, annotations: reads }, (input) =>
  content(files().includes(input.name) ? readFileSync(join(folder, input.name), 'utf8') : 'There is no such note.'),
);
const writing = { description: 'Writes a note.', inputSchema: { name, text }, annotations: writes };
server.registerTool('write_file', writing, (input) => {
  writeFileSync(join(folder, input.name), input.text);
  return content(`${input.name} is written.`);
});
const deleting = { description: 'Deletes a note.', inputSchema: { name }, annotations: deletes };
server.registerTool('delete_file', deleting, (input) => {
  rmSync(join(folder, input.name), { force: true });
  return content(`${input.name} is deleted.`);
});
const breaking = { description: 'Ends this server in the middle of the call.', inputSchema: {}, annotations: writes };
server.registerTool('break_off', breaking, () => process.exit(1));
await server.connect(new StdioServerTransport());
