import { fileURLToPath } from 'node:url';
import type { McpServerConfig } from '../../../src/config/config.ts';
import { serverSchema } from '../../../src/config/schema.ts';
import type { McpPorts } from '../../../src/agents/mcp/mcp-connection.ts';
import type { ServerTool } from '../../../src/agents/mcp/mcp-tools.ts';
import { createTime } from '../time.ts';
import type { Time } from '../time.ts';

const SCRIPT = fileURLToPath(new URL('fixtures/tools-server.ts', import.meta.url));

/** The configuration of a tools server with these flags. */
export function toolsServer(flags: readonly string[] = [], more: Partial<McpServerConfig> = {}): McpServerConfig {
  return { ...serverSchema.parse({ command: process.execPath, args: [SCRIPT, ...flags] }), ...more };
}

/** The log, and ports with a clock of their own. Servers get time to end by themselves. */
export function mcpPorts(time: Time = createTime()): { ports: McpPorts; logged: string[]; time: Time } {
  const logged: string[] = [];
  const log = (fields: object, message: string) => void logged.push(`${message} ${JSON.stringify(fields)}`);
  return { ports: { ...time, log: { debug() {}, info: log, warn: log, error: log } }, logged, time };
}

/** A tool with any name, as if a server listed it. */
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
