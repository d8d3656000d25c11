import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { addAgentToken } from '../../../../src/agents/backends/remote/tokens.ts';
import { inPlace, readyPage } from '../../../e2e/demo.ts';
import { freePort } from '../../../kill/bot.ts';
import type { Bot } from '../../../kill/bot.ts';
import type { Page } from '../../../kill/page.ts';

export const CHANNEL = 'console:demo';

/** A running Conch with the remote agent dev, then the scripted agent qa. */
export type RemoteFloor = {
  readonly page: Page;
  readonly bot: Bot;
  readonly url: string;
  /** Starts a program as dev, with the token in CONCH_AGENT_TOKEN. It ends with the floor. */
  readonly run: (command: string, args: readonly string[]) => ChildProcess;
  readonly status: (agent: string) => string | undefined;
  /** Kills Conch and starts it again. Returns its new page. */
  readonly restart: () => Promise<Page>;
};

/** Starts a new Conch and runs `use` with it. `turnConfig` overrides the short default intervals. */
export async function onRemoteFloor(turnConfig: object, use: (floor: RemoteFloor) => Promise<void>): Promise<void> {
  const port = await freePort();
  const config = {
    turnConfig: { heartbeatSeconds: 0.5, heartbeatTimeoutSeconds: 1, reconnectGraceSeconds: 0.5, ...turnConfig },
    agents: [
      { id: 'dev', backend: { kind: 'remote' } },
      { id: 'qa', backend: { kind: 'scripted', script: 'qa', wordMs: 1 } },
    ],
    channels: [{ id: CHANNEL, agents: ['dev', 'qa'] }],
    remote: { port },
    log: { level: 'info', pretty: false },
  };
  await inPlace(config, async (place, start) => {
    const token = addAgentToken(place.dataDir, 'dev', { at: Date.now() });
    const bot = start();
    const page = await readyPage(bot);
    const children: ChildProcess[] = [];
    const run = (command: string, args: readonly string[]) => {
      const env = { ...process.env, CONCH_AGENT_TOKEN: token };
      const child = spawn(command, args, { env, stdio: ['ignore', 'inherit', 'inherit'] });
      children.push(child);
      return child;
    };
    const status = (agent: string) => page.view?.seats.find((seat) => seat.agent === agent)?.status;
    const pages = [page];
    const restart = async () => {
      await bot.end('SIGKILL');
      const next = await readyPage(start());
      pages.push(next);
      return next;
    };
    try {
      await use({ page, bot, url: `ws://127.0.0.1:${port}/agent`, run, status, restart });
    } finally {
      for (const each of pages) each.close();
      await Promise.all(children.map(ended));
    }
  });
}

/** Kills a program, frozen or not. Resolves when the program has ended. */
export async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const closed = once(child, 'exit');
  child.kill('SIGCONT');
  child.kill('SIGKILL');
  await closed;
}
