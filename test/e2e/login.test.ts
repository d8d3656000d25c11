import { LLMock } from '@copilotkit/aimock';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { browse, startAuth } from '../agents/mcp/auth-rig.ts';
import { startBot } from '../kill/bot.ts';
import type { Place } from '../kill/bot.ts';
import { CHANNEL, inPlace, readyPage } from './demo.ts';
import { until } from './network.ts';

/** A model service: its model calls the tool web__echo, then posts the tool's answer. */
async function startModel(): Promise<LLMock> {
  const mock = new LLMock({ port: 0, host: '127.0.0.1' });
  mock.on({ predicate: () => true }, ({ messages }) => {
    const last = messages.at(-1);
    if (last?.role !== 'tool') return { content: '', toolCalls: [{ name: 'web__echo', arguments: '{}', id: 'call' }] };
    return { content: `It says: ${typeof last.content === 'string' ? last.content : ''}` };
  });
  await mock.start();
  return mock;
}

/** Runs `conch mcp login web` while Conch runs, and signs in as a person does. */
async function signIn(place: Place): Promise<void> {
  const login = startBot(place, { argv: ['mcp', 'login', 'web'] });
  const address = () => /^ {2}(http\S+)$/m.exec(login.out())?.[1] ?? '';
  await until(() => address() !== '', 'an address to open');
  await fetch(await browse(address()));
  expect((await login.ended).code).toBe(0);
}

/** Returns the contents of all files in the data folder. Leaves out subfolders, such as that of the logins. */
function kept({ dataDir }: { readonly dataDir: string }): string {
  const files = readdirSync(dataDir, { withFileTypes: true }).filter((entry) => entry.isFile());
  return files.map(({ name }) => readFileSync(join(dataDir, name), 'latin1')).join('\n');
}

describe('a tool server that requires a login', () => {
  test('is announced with the login command, works after the login, and its token appears nowhere', async () => {
    const [auth, model] = [await startAuth(), await startModel()];
    const backend = { kind: 'llm', provider: 'openai-compatible', model: 'm', baseUrl: `${model.url}/v1` };
    const config = {
      mcp: { web: { url: auth.url } },
      agents: [{ id: 'writer', backend, tools: { allow: ['mcp__web__*'], trusted: ['mcp__web__*'] } }],
      channels: [{ id: CHANNEL, agents: ['writer'] }],
      log: { level: 'debug', pretty: false },
    };
    try {
      await inPlace(config, async (place, start) => {
        const bot = start();
        const page = await readyPage(bot);
        const health = async () => await fetch(`http://127.0.0.1:${bot.port}/healthz`).then((answer) => answer.text());
        await page.say(CHANNEL, 'Look it up');
        await page.until(() => page.texts('system').some((text) => text.includes('🔌')), 'that the tools are gone');
        expect(page.texts('system').join('\n')).toContain('run "conch mcp login web"');
        expect(JSON.parse(await health())).toMatchObject({ tools: { status: 'degraded', logins: 1 } });
        await signIn(place);
        auth.faults.echoes = true;
        await page.say(CHANNEL, 'And now?');
        await page.until(() => page.texts('agent').length === 2, 'an answer');
        expect(page.texts('agent')[1]).toContain('Bearer «the token of a login»');
        expect(page.texts('system').at(-1)).toContain('has the tools of web again');
        expect(JSON.parse(await health())).toMatchObject({ tools: { status: 'ok', logins: 0 } });
        const { access = '', refresh = '' } = auth.good() ?? {};
        await bot.end('SIGTERM');
        const shown = [bot.out(), bot.err(), ...page.texts('agent'), ...page.texts('system'), kept(place)];
        for (const text of shown) expect(text.includes(access) || text.includes(refresh)).toBe(false);
        const asked = model.getRequests().map(({ body }) => JSON.stringify(body));
        expect(asked.some((text) => text.includes(access))).toBe(false);
      });
    } finally {
      await Promise.all([model.stop(), auth.close()]);
    }
  });
});
