import { spawnSync } from 'node:child_process';
import { describe, expect, test } from 'vitest';
import { CHANNEL, onRemoteFloor } from '../agents/backends/remote/remote-floor.ts';

const file = (name: string) => new URL(`../../examples/${name}`, import.meta.url).pathname;
const python = ['python3', '/usr/bin/python3'].find(
  (command) => spawnSync(command, ['-c', 'import websockets']).status === 0,
);

async function answers(command: string, script: string): Promise<readonly string[]> {
  let said: readonly string[] = [];
  await onRemoteFloor({ heartbeatTimeoutSeconds: 5 }, async ({ page, run, url, status }) => {
    run(command, [file(script), url]);
    await page.until(() => status('dev') === 'QUEUED', 'the example at the floor');
    await page.say(CHANNEL, 'dev: hello');
    await page.until(() => page.texts('agent').length > 0, 'an answer');
    said = page.texts('agent').slice(0, 1);
  });
  return said;
}

describe('an example', () => {
  test('in TypeScript connects, takes its seat and answers', async () => {
    expect(await answers(process.execPath, 'agent.ts')).toEqual([
      expect.stringMatching(/^I was sent \d+ characters\.$/),
    ]);
  });

  test('in Python connects, takes its seat and answers', async ({ skip }) => {
    skip(python === undefined, 'python3 with the package "websockets" is not installed (python3-websockets on Debian)');
    expect(await answers(python ?? '', 'agent.py')).toEqual([expect.stringMatching(/^I was sent \d+ characters\.$/)]);
  });
});
