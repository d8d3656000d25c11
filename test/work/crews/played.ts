import type { AgentBackend, Report, TurnPrompt } from '../../../src/agents/backends/backend.ts';
import { FloorTools } from '../../../src/agents/tools/floor-tools.ts';
import type { AgentConfig } from '../../../src/config/config.ts';

/** The prefix of an answer that asks people a question. */
export const ASKS = 'ask people: ';

/** Plays a step of a worker: changes its worktree and returns its answer. */
export type Work = (
  folder: string,
  turn: TurnPrompt,
  step: number,
  agent: string,
  /** Proposes a ticket by its tool. */
  propose: (ticket: object) => string | Promise<string>,
  gate?: Report['gate'],
) => string | Promise<string>;

/** A backend whose agents are played by a function. `closed`: called with the folder of each session that ends. */
export function played(agent: AgentConfig, work: Work, closed: (folder: string) => void = () => {}): AgentBackend {
  const folder = 'cwd' in agent.backend ? (agent.backend.cwd ?? '') : '';
  let step = 0;
  return {
    kind: 'played',
    needsSignal: false,
    promisesToAsk: true,
    open: async () => ({
      async prompt(turn, report) {
        const tools = new FloorTools(report, agent.id, turn);
        const propose = (ticket: object) => tools.apply('ticket_new', ticket);
        const said = await work(folder, turn, (step += 1), agent.id, propose, report.gate);
        if (said.startsWith(ASKS)) tools.apply('wait_for', { question: said.slice(ASKS.length) });
        else tools.text(said);
        return tools.ending;
      },
      inject: async () => 'next-prompt',
      interrupt: async () => {},
      ping: async () => {},
      close: async () => closed(folder),
    }),
  };
}
