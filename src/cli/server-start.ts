import type { CheckResult } from '../adapters/delivery/check-result.ts';
import { LoginStore } from '../agents/mcp/login-store.ts';
import { LoginNeededError, ServerLogins } from '../agents/mcp/server-logins.ts';
import { McpServer } from '../agents/mcp/mcp-server.ts';
import type { BackendsParts } from '../runtime/agent-factory.ts';

/** Tries whether each server of tools can be used: it is started, or reached, asked for its tools, and ended. */
export async function tryServers({ config, ...parts }: BackendsParts): Promise<readonly CheckResult[]> {
  const logins = new ServerLogins(new LoginStore(config.dataDir), parts);
  const ports = { ...parts, logins };
  return await Promise.all(
    Object.entries(config.mcp).map(async ([id, settings]): Promise<CheckResult> => {
      const server = new McpServer(id, settings, ports);
      const what = `${id}: tools`;
      try {
        const tools = await server.tools();
        const text = `it has ${tools.length}: ${namesOf(tools)}`;
        const [lack] = logins.waiting({ [id]: settings });
        if (lack === undefined) return { what, verdict: 'good', text, todo: null };
        return { what, verdict: 'warning', text: `${text}; ${lack.why}`, todo: `Run: conch mcp login ${id}` };
      } catch (error) {
        const text = (error instanceof Error ? error.message : String(error)).replaceAll(/[\p{C}\s]+/gu, ' ');
        const isLogin = error instanceof LoginNeededError;
        const todo = isLogin ? `Run: conch mcp login ${id}` : `Mend "${id}" under "mcp", and see with: conch doctor.`;
        return { what, verdict: 'bad', text, todo };
      } finally {
        await server.close();
      }
    }),
  );
}

const SHOWN_TOOLS = 8;

function namesOf(tools: readonly { readonly name: string }[]): string {
  const names = tools.slice(0, SHOWN_TOOLS).map(({ name }) => name);
  return [...names, ...(tools.length > SHOWN_TOOLS ? ['…'] : [])].join(', ') || 'none';
}
