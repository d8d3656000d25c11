import type { CheckResult } from '../adapters/delivery/check-result.ts';
import { McpServer } from '../agents/mcp/mcp-server.ts';
import type { BackendsParts } from '../runtime/agent-factory.ts';

/** Tries whether each server of tools can be used: it is started, or reached, asked for its tools, and ended. */
export async function tryServers({ config, ...ports }: BackendsParts): Promise<readonly CheckResult[]> {
  return await Promise.all(
    Object.entries(config.mcp).map(async ([id, settings]): Promise<CheckResult> => {
      const server = new McpServer(id, settings, ports);
      const what = `${id}: tools`;
      try {
        const tools = await server.tools();
        return { what, verdict: 'good', text: `it has ${tools.length}: ${namesOf(tools)}`, todo: null };
      } catch (error) {
        const text = (error instanceof Error ? error.message : String(error)).replaceAll(/[\p{C}\s]+/gu, ' ');
        return { what, verdict: 'bad', text, todo: `Mend "${id}" under "mcp", and see with: conch doctor.` };
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
