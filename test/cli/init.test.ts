import { describe, expect, test } from 'vitest';
import { runInit } from '../../src/cli/init.ts';
import type { InitFlags, InitWorld } from '../../src/cli/init.ts';
import { loadConfig } from '../../src/config/load.ts';
import { MODE_NAMES } from '../../src/config/schema.ts';
import { STARTER_AGENTS, STARTER_PLATFORMS } from '../../src/config/starter.ts';
import { EXIT_CODES } from '../../src/runtime/exit-codes.ts';

const NO_FLAGS: InitFlags = { platform: null, channel: null, agents: null, names: null, mode: null };
const FILE = '/somewhere/turnConfig.json';
const CHANNELS = { page: 'team', discord: '123456789012345678', slack: 'C0123456789' } as const;
/** All variables that a first configuration can need. */
const ENV = {
  DISCORD_TOKEN: 'a-token',
  SLACK_BOT_TOKEN: 'xoxb-1',
  SLACK_APP_TOKEN: 'xapp-1',
  ANTHROPIC_API_KEY: 'a-key',
  OPENAI_API_KEY: 'a-key',
};

describe('a first configuration', () => {
  const all = STARTER_PLATFORMS.flatMap((platform) => STARTER_AGENTS.map((agents) => [platform, agents] as const));

  test.each(all)('on %s with %s starts without a warning', async (platform, agents) => {
    const { files, code } = await init({ platform, agents, channel: CHANNELS[platform] });
    expect(code).toBe(EXIT_CODES.ok);
    const config = load(files[FILE]);
    expect(config.warnings).toEqual([]);
    expect(config.channels.map(({ adapter, agents: seated }) => [adapter, seated.length > 1])).toEqual([
      [platform === 'page' ? 'console' : platform, true],
    ]);
  });

  test.each(MODE_NAMES)('has the mode %s', async (mode) => {
    const { files } = await init({ mode });
    expect(load(files[FILE]).turnConfig.humanInterruptMode).toBe(mode);
  });

  test('has the agents of --names', async () => {
    const { files } = await init({ names: 'ann, bob,cy,di' });
    expect(load(files[FILE]).agents.map(({ id }) => id)).toEqual(['ann', 'bob', 'cy', 'di']);
  });
});

describe('conch init without a terminal', () => {
  test('uses the defaults, writes one file, and lists the next steps', async () => {
    const { files, code, out } = await init({});
    expect([code, Object.keys(files)]).toEqual([EXIT_CODES.ok, [FILE]]);
    expect(out).toBe(`Written: ${FILE}\n1. Check it: npm run conch -- doctor\n2. Start it: npm start\n`);
  });

  test('lists the missing packages and variables', async () => {
    const { files, out } = await init(
      { platform: 'discord', channel: CHANNELS.discord, agents: 'openai' },
      {},
      { isInstalled: false },
    );
    expect(files['/somewhere/.env']).toContain('DISCORD_TOKEN=\n');
    expect(files['/somewhere/.env']).toContain('OPENAI_API_KEY=\n');
    expect(out).toContain('Install the packages for Discord, an agent of the kind "llm": npm install');
    expect(out).toContain('Set in /somewhere/.env: DISCORD_TOKEN (docs/discord.md, step 1)');
  });

  test.each([
    [{ platform: 'discord' }, '--channel is missing'],
    [{ platform: 'irc' }, '--platform: Expected one of page, discord, slack, got "irc".'],
    [{ platform: 'discord', channel: '#general' }, 'Expected the digits of a Discord channel id, got "#general"'],
    [{ agents: 'kimi' }, '--agents: Expected one of demo,'],
    [{ names: 'dev,dev' }, 'Expected different names, got "dev,dev"'],
    [{ names: 'a b' }, '--names: Expected names of letters'],
    [{ names: ',' }, '--names: Expected names of letters'],
    [{ mode: 'loud' }, '--mode: Expected one of inject,'],
  ])('refuses %j and writes nothing', async (flags, words) => {
    const { files, code, err } = await init(flags);
    expect([code, files]).toEqual([EXIT_CODES.usage, {}]);
    expect(err).toContain(words);
  });

  test('says that the folder cannot be written', async () => {
    const { code, err } = await init({}, {}, { isWritable: false });
    expect([code, err]).toEqual([EXIT_CODES.diskFull, expect.stringContaining('(EROFS). Run conch init in a folder')]);
  });

  test('overwrites no configuration and no .env', async () => {
    const old = { [FILE]: '{}' };
    const refused = await init({}, old);
    expect([refused.code, refused.files]).toEqual([EXIT_CODES.refused, old]);
    expect(refused.err).toContain('exists, and conch init overwrites nothing');
    const kept = await init({ agents: 'openai' }, { '/somewhere/.env': 'MINE=1\n' });
    expect([kept.code, kept.files['/somewhere/.env']]).toEqual([EXIT_CODES.ok, 'MINE=1\n']);
  });
});

describe('conch init on a terminal', () => {
  test('asks five questions, each again until its answer fits', async () => {
    const typed = ['chat', 'slack', 'general', CHANNELS.slack, '', 'ann,bob', 'queue'];
    const { files, asked, out } = await init({}, {}, { typed });
    expect(new Set(asked).size).toBe(5);
    expect(asked).toHaveLength(typed.length);
    expect(out).toContain('Expected one of page, discord, slack, got "chat".');
    const config = load(files[FILE]);
    expect(config.channels[0]).toMatchObject({ id: `slack:${CHANNELS.slack}`, agents: ['ann', 'bob'] });
  });

  test('asks only questions that no option answers', async () => {
    const { asked } = await init(
      { platform: 'page', channel: 'team', names: 'dev', mode: 'queue' },
      {},
      { typed: ['codex'] },
    );
    expect(asked).toEqual([expect.stringContaining('What are the agents?')]);
  });

  test('writes nothing when the input ends', async () => {
    const { files, code, err } = await init({}, {}, { typed: ['page'] });
    expect([code, files]).toEqual([EXIT_CODES.usage, {}]);
    expect(err).toContain('Nothing was written');
  });
});

/** `typed`: the lines typed in a terminal; `null` without one. `isInstalled`: whether packages are installed. */
type InitWithout = {
  readonly typed?: readonly string[] | null;
  readonly isInstalled?: boolean;
  readonly isWritable?: boolean;
};

/** Runs `conch init` in a folder that contains the files of `present`. */
async function init(
  flags: Partial<InitFlags>,
  present: Readonly<Record<string, string>> = {},
  { typed = null, isInstalled = true, isWritable = true }: InitWithout = {},
) {
  const files: Record<string, string> = { ...present };
  const [asked, left]: [string[], string[]] = [[], [...(typed ?? [])]];
  let [out, err] = ['', ''];
  const world: InitWorld = {
    cwd: '/somewhere',
    file: FILE,
    ask: typed !== null ? (question) => (asked.push(question), Promise.resolve(left.shift() ?? null)) : null,
    create: (path, text) => {
      if (!isWritable) throw new Error('EROFS');
      if (path in files) return false;
      files[path] = text;
      return true;
    },
    isFile: (path) => path in files,
    isInstalled: () => isInstalled,
    out: (text) => (out += text),
    err: (text) => (err += text),
  };
  const code = await runInit({ ...NO_FLAGS, ...flags }, world);
  return { code, files, asked, out, err };
}

function load(text = '') {
  const readFile = (path: string) => (path === FILE ? { text, public: false } : null);
  const machine = { isFolder: () => true, isProgram: () => true, isInstalled: () => true };
  return loadConfig({ env: ENV, cwd: '/somewhere', readFile, machine }, 'start');
}
