import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import type { Config } from '../../src/config/config.ts';
import { systemClock, systemTimers } from '../../src/lib/time.ts';
import { createBackends, reuseBackends } from '../../src/runtime/agent-factory.ts';
import type { Backends } from '../../src/runtime/agent-factory.ts';
import { createLog } from '../../src/runtime/log.ts';
import { load } from '../config/world.ts';

const folder = mkdtempSync(join(tmpdir(), 'conch-factory-'));
const told = join(folder, 'told.json');
/** A program in place of a coding agent: writes its permissions into the file `told`, and exits. */
const program = join(folder, 'agent.mjs');
writeFileSync(
  program,
  `import { writeFileSync } from 'node:fs';\nwriteFileSync(${JSON.stringify(told)}, process.env.OPENCODE_PERMISSION);\n`,
);
let backends: Backends | null = null;
afterEach(async () => {
  await backends?.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** A configuration with one coding agent, and `tools` as the rules for all agents. */
function withRules(tools: object): Config {
  const backend = { kind: 'acp', profile: 'opencode', command: process.execPath, args: [program], cwd: folder };
  const agents = [{ id: 'dev', backend }];
  return load({ agents, channels: [{ id: 'console:main', agents: ['dev'] }], tools }, { CONCH_DATA_DIR: folder });
}

describe('the tool rules of a changed configuration', () => {
  test('become the permissions of a coding agent when its next session starts', async () => {
    const [first, next] = [withRules({}), withRules({ deny: ['Read'] })];
    let config = first;
    const log = createLog({ level: 'fatal', pretty: false, secrets: [], destination: { write: () => undefined } });
    const time = { clock: systemClock(), timers: systemTimers };
    backends = await createBackends({ config: first, ...time, log });
    const backendFor = reuseBackends(backends.backendFor, () => config);
    const agentOf = (of: Config) => of.agents.find(({ id }) => id === 'dev')!;
    const before = backendFor(agentOf(first));
    expect(backendFor(agentOf(first))).toBe(before);
    await backends.load(next);
    config = next;
    const after = backendFor(agentOf(next));
    expect(after).not.toBe(before);
    const seat = { channel: 'console:main', agent: 'dev', name: 'Dev', persona: '' };
    await expect(after.open(seat as unknown as Parameters<typeof after.open>[0])).rejects.toThrow('exited with code 0');
    expect(JSON.parse(readFileSync(told, 'utf8'))).toMatchObject({ read: 'deny' });
  });
});
