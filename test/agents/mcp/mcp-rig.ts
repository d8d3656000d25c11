import { fileURLToPath } from 'node:url';
import type { McpServerConfig } from '../../../src/config/config.ts';
import { serverSchema } from '../../../src/config/schema.ts';
import type { McpPorts } from '../../../src/agents/mcp/mcp-connection.ts';
import type { ServerTool } from '../../../src/agents/mcp/mcp-tools.ts';
import { createTime } from '../time.ts';
import type { Time } from '../time.ts';

const SCRIPT = fileURLToPath(new URL('fixtures/tools-server.ts', import.meta.url));

/** Returns the configuration of `fixtures/tools-server.ts` with these flags. */
export function toolsServer(flags: readonly string[] = [], more: Partial<McpServerConfig> = {}): McpServerConfig {
  return { ...serverSchema.parse({ command: process.execPath, args: [SCRIPT, ...flags] }), ...more };
}

/** Returns ports with a test clock, and what they log. A server is killed only when a test advances the clock. */
export function mcpPorts(time: Time = createTime()): { ports: McpPorts; logged: string[]; time: Time } {
  const logged: string[] = [];
  const log = (fields: object, message: string) => void logged.push(`${message} ${JSON.stringify(fields)}`);
  return { ports: { ...time, log: { debug() {}, info: log, warn: log, error: log } }, logged, time };
}

/** Returns the definition of a tool with this name, of the MCP server "raw". */
export function toolNamed(name: string): ServerTool {
  return {
    server: 'raw',
    name,
    rule: `mcp__raw__${name}`,
    alias: `raw__${name}`,
    description: '',
    schema: { type: 'object' },
    digest: name,
    claims: { readOnly: false, closedWorld: false, destructive: true },
  };
}

/** Returns the number in the text of an answer. Throws when the text is not a number. */
export function numberIn(text: string): number {
  if (!/^\d+$/.test(text)) throw new Error(`no number: ${text}`);
  return Number(text);
}
