import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { createAcpBackend } from '../../../src/agents/backends/acp/acp-backend.ts';
import { sandboxFault } from '../../../src/agents/process/sandbox.ts';
import { createToolServer } from '../../../src/agents/tools/tool-server.ts';
import { makeRepository } from '../../../src/cli/agent-check.ts';
import { gateThat, person, prompt, recorder } from '../backends/conversation.ts';
import { REAL_AGENTS, homeIn, install, programOf } from './agents.ts';
import type { RealAgent } from './agents.ts';
import { startModel } from './mock.ts';
import { SEAT } from './parts.ts';

/**
 * Runs each real coding agent in a sandbox with access to the model's service only. The agent must answer, and write a
 * file after permission. `node test/agents/real/sandboxed.ts [profile …]`. The last line is a count in JSON.
 */
async function tryOut(agent: RealAgent): Promise<string> {
  install(agent);
  const base = mkdtempSync(`${tmpdir()}/conch-sandboxed-`);
  const [work, home] = [`${base}/work`, `${base}/home`];
  mkdirSync(home);
  const model = await startModel();
  const toolServer = createToolServer();
  try {
    makeRepository(work);
    const backend = createAcpBackend({
      profile: agent.profile,
      command: programOf(agent),
      env: { ...homeIn(home), ...agent.environment(model, home) },
      cwd: work,
      trusted: true,
      toolServer,
      sandbox: {
        home,
        hidden: [],
        readable: [],
        network: { hosts: [model.url, model.codexUrl].map((url) => new URL(url).host), ports: [] },
      },
    });
    const session = await backend.open(SEAT);
    const heard = recorder();
    const gate = gateThat(() => 'allow');
    for (const text of ['TASK-plain: answer.', `TASK-write ${work}/written-by-agent: do it.`])
      await session.prompt(prompt({ messages: [person(1, text)], text }), { ...heard.report, gate });
    await session.close();
    const wrote = readdirSync(work).includes('written-by-agent') ? 'wrote its file' : 'wrote nothing';
    return `${heard.messages.join(' ').includes('A plain answer.') ? 'answered' : 'did not answer'}, ${wrote}`;
  } catch (error) {
    return `failed: ${String(error).slice(0, 300)}`;
  } finally {
    await Promise.all([toolServer.close(), model.stop()]);
    rmSync(base, { recursive: true, force: true, maxRetries: 5 });
  }
}

const why = await sandboxFault();
if (why !== null) throw new Error(why);
const wanted = process.argv.slice(2);
const sums = { agents: 0, works: 0 };
for (const agent of REAL_AGENTS.filter(({ profile }) => wanted.length === 0 || wanted.includes(profile))) {
  const seen = await tryOut(agent);
  process.stdout.write(`${agent.name}: ${seen}\n`);
  sums.agents += 1;
  sums.works += Number(seen === 'answered, wrote its file');
}
process.stdout.write(`${JSON.stringify(sums)}\n`);
process.exitCode = sums.works === sums.agents ? 0 : 1;
