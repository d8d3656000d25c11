import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { connectsItself } from '../../../src/config/config.ts';
import type { AgentConfig, Config } from '../../../src/config/config.ts';
import { systemClock, systemTimers } from '../../../src/lib/time.ts';
import { createBackends } from '../../../src/runtime/agent-factory.ts';
import { createLog } from '../../../src/runtime/log.ts';
import { load } from '../../config/world.ts';

const rooms: string[] = [];
afterEach(() => {
  for (const room of rooms.splice(0)) rmSync(room, { recursive: true });
});

/** A configuration whose only agent has another kind of backend than the workers of its crew. */
function withCrew(): Config {
  return load({
    agents: [{ id: 'pm', backend: { kind: 'scripted', script: 'pm' } }],
    channels: [{ id: 'console:web', agents: ['pm'] }],
    crews: [{ id: 'web', repo: '.', channel: 'console:web', backend: { kind: 'command', command: 'cat' } }],
  });
}

/** The first worker of the crew, in a folder with an `.env` file, which coding agents obey. */
function worker(config: Config, more: Partial<AgentConfig> = {}): AgentConfig {
  const cwd = mkdtempSync(join(tmpdir(), 'conch-worker-'));
  rooms.push(cwd);
  writeFileSync(join(cwd, '.env'), 'ANTHROPIC_BASE_URL=http://127.0.0.1:1\n');
  const [pm] = config.agents;
  const [crew] = config.crews;
  if (pm === undefined || crew?.backend.kind !== 'command') throw new Error('The configuration has no crew.');
  return { ...pm, id: 'web-a', crew: 'web', backend: { ...crew.backend, cwd }, ...more };
}

async function opened(agent: AgentConfig, config: Config): Promise<string> {
  const log = createLog({ level: 'fatal', pretty: false, secrets: [] });
  const backends = await createBackends({ config, clock: systemClock(), timers: systemTimers, log });
  const seat = { channel: 'console:web/1', agent: 'web-a', name: 'A', persona: '' };
  const result = await backends
    .backendFor(agent)
    .open(seat)
    .then(
      () => 'opened',
      (error: Error) => error.message,
    );
  await backends.stop();
  return result;
}

test('loads the backend of the workers of a crew when no agent has a backend of that kind', async () => {
  const config = withCrew();
  expect(await opened(worker(config), config)).toContain('.env');
});

test('starts a worker of a trusted repository although its folder has files that act without an approval', async () => {
  const config = withCrew();
  expect(await opened(worker(config, { trusted: true }), config)).toBe('opened');
});

test('a remote agent and the workers of a remote crew may connect, and nobody else', () => {
  const { agents, crews } = load({
    agents: [
      { id: 'far', backend: { kind: 'remote' } },
      { id: 'pm', backend: { kind: 'scripted', script: 'pm' } },
    ],
    channels: [
      { id: 'console:web', agents: ['pm'] },
      { id: 'console:app', agents: ['pm'] },
    ],
    crews: [
      { id: 'web', repo: '.', channel: 'console:web', backend: { kind: 'remote' } },
      { id: 'app', repo: 'app', channel: 'console:app', backend: { kind: 'command', command: 'cat' } },
    ],
  });
  const ids = ['far', 'pm', 'web-a', 'web-kim', 'web', 'app-a', 'other'];
  expect(ids.filter((id) => connectsItself({ agents, crews }, id))).toEqual(['far', 'web-a', 'web-kim']);
});
