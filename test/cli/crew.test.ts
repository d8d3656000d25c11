import { expect, test } from 'vitest';
import { runCrew } from '../../src/cli/crew-command.ts';
import { EXIT_CODES } from '../../src/runtime/exit-codes.ts';
import { load } from '../config/world.ts';

function crews(...ids: readonly string[]) {
  return load({
    agents: [{ id: 'pm', backend: { kind: 'scripted', script: 'pm' } }],
    channels: ids
      .map((id) => ({ id: `console:${id}`, agents: ['pm'] }))
      .concat([{ id: 'console:all', agents: ['pm'] }]),
    crews: ids.map((id) => ({
      id,
      repo: `../${id}`,
      channel: `console:${id}`,
      backend: { kind: 'command', command: 'x' },
    })),
  });
}

function world() {
  const said: string[] = [];
  const never = new AbortController();
  return {
    said,
    world: {
      dataDir: '/nowhere',
      readFile: async () => Promise.reject(new Error('no file')),
      fetch: async () => Promise.reject(new Error('not reached')),
      port: 1,
      out: (text: string) => void said.push(text),
      err: (text: string) => void said.push(text),
      signal: never.signal,
      sleep: async () => {},
      isTerminal: false,
    } as unknown as Parameters<typeof runCrew>[2],
  };
}

test('conch crew without crews in the configuration names turnConfig.json', async () => {
  const { said, world: given } = world();
  expect(await runCrew({ words: ['ps'], crew: null, json: false }, crews(), given)).toBe(2);
  expect(said.join('')).toContain('turnConfig.json has no crews');
});

test('conch crew with several crews asks for --crew', async () => {
  const { said, world: given } = world();
  expect(await runCrew({ words: ['ps'], crew: null, json: false }, crews('web', 'app'), given)).toBe(2);
  expect(said.join('')).toContain('--crew with one of web, app');
});

test('the dashboard says how to start Conch when it does not run', async () => {
  const { said, world: given } = world();
  expect(await runCrew({ words: ['d'], crew: null, json: false }, crews('web'), { ...given, isTerminal: true })).toBe(
    EXIT_CODES.notRunning,
  );
  expect(said.join('')).toMatch(
    /^No running Conch answers at 127\.0\.0\.1:1: there is no \/nowhere\/\S+ Start it with/,
  );
});
