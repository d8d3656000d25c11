import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { BackendError, UntrustedError } from '../../../../src/agents/backends/backend.ts';
import type { AgentSession, TurnPrompt } from '../../../../src/agents/backends/backend.ts';
import { createCommandBackend } from '../../../../src/agents/backends/command/command-backend.ts';
import type { CommandOptions } from '../../../../src/agents/backends/command/command-backend.ts';
import { openChannel } from '../../channel.ts';
import { person, prompt, recorder } from '../conversation.ts';

const SEAT = { channel: 'console:demo', agent: 'dev', name: 'Developer', persona: '' };

let folder: string;
let session: AgentSession | null;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'conch-command-'));
  session = null;
});
afterEach(async () => {
  await session?.close();
  rmSync(folder, { recursive: true });
});

/** Opens a session whose command is a line of shell, in its own folder. */
async function open(line: string, more: Partial<CommandOptions> = {}): Promise<AgentSession> {
  const backend = createCommandBackend({
    command: 'sh',
    args: ['-c', line],
    cwd: folder,
    input: 'stdin',
    output: 'text',
    timeoutMs: 20_000,
    maxOutputBytes: 10_000,
    ...more,
  });
  session = await backend.open(SEAT);
  return session;
}

function ask(agent: AgentSession, more: Partial<TurnPrompt> = {}) {
  const heard = recorder();
  const first = Promise.withResolvers<void>();
  const report: typeof heard.report = { ...heard.report, text: (chunk) => (heard.report.text(chunk), first.resolve()) };
  const over = agent.prompt(prompt({ text: 'Build it', ...more }), report);
  over.catch(() => {});
  return { over, heard, spoken: first.promise, said: () => heard.messages.filter((message) => message !== '') };
}

async function run(line: string, more: Partial<CommandOptions> = {}, turn: Partial<TurnPrompt> = {}) {
  const { over, said, heard } = ask(await open(line, more), turn);
  const ending = await over;
  return { said: said(), ending, events: heard.events };
}

async function failure(line: string, more: Partial<CommandOptions> = {}) {
  const error: unknown = await run(line, more).catch((caught: unknown) => caught);
  if (error instanceof BackendError) return { message: error.message, terminal: error.terminal };
  throw new Error('impossible: the command did not fail');
}

/** Reads the process ids that a command wrote to a file. */
const pids = () => readFileSync(join(folder, 'pids'), 'utf8').trim().split('\n').map(Number);

describe('a command with text', () => {
  test('reads the prompt and writes the answer', async () => {
    const { said, ending, events } = await run('read line; echo "You said: $line"');
    expect([said, ending]).toEqual([['You said: Build it\n'], { how: 'completed' }]);
    expect(events).toEqual(['host 1', 'host 0']);
  });

  test('gets the prompt unchanged as its last argument, without a shell', async () => {
    const text = '$(touch owned) `touch owned`; "quoted" \'too\' -rf \0 end';
    const { said } = await run(
      'printf %s "$1"; ls',
      { args: ['-c', 'printf "%s|" "$1"; ls', 'sh'], input: 'arg' },
      { text },
    );
    expect(said.join('')).toBe(`${text.replace('\0', '')}|`);
  });

  test('refuses a prompt that is too long for an argument', async () => {
    const agent = await open('cat', { input: 'arg' });
    await expect(ask(agent, { text: 'x'.repeat(200_000) }).over).rejects.toThrow('set "input" to "stdin"');
  });

  test('gets the option for a new session until its program was started, then the option to resume', async () => {
    const args = ['-c', 'echo "$1 $2"', 'sh', '{session}'];
    const agent = await open('', { args, input: 'arg', set: { CONCH_SESSION: 'c1' } });
    await expect(ask(agent, { text: 'x'.repeat(200_000) }).over).rejects.toThrow('too long');
    const first = ask(agent);
    await first.over;
    const next = ask(agent);
    await next.over;
    expect([first.said(), next.said()]).toEqual([['--session-id c1\n'], ['--resume c1\n']]);
  });

  test('works when it does not read a long prompt', async () => {
    const { said } = await run('echo Done', {}, { text: 'x'.repeat(1_000_000) });
    expect(said).toEqual(['Done\n']);
  });

  test('without output passes', async () => {
    expect((await run('true')).ending).toEqual({ how: 'passed' });
  });

  test('has its output posted without colours', async () => {
    expect((await run(String.raw`printf '\033[31mred\033[0m'`)).said).toEqual(['red']);
    const pieces = String.raw`printf 'a \033[3'; sleep 0.1; printf '1mred\033'; sleep 0.1; printf '[0m'`;
    expect((await run(pieces)).said).toEqual(['a red']);
  });

  test.each([
    String.raw`\033(|B\033[m`,
    String.raw`\033]0;my title|\a`,
    String.raw`\033]0;my title\033|\\`,
    String.raw`\033]8;;http://a.b|/c\033\\`,
  ])('has its output posted without the code %s, which arrives in two pieces', async (code) => {
    const [start = '', end = ''] = code.split('|');
    expect((await run(`printf 'a ${start}'; sleep 0.1; printf '${end}red'`)).said.join('')).toBe('a red');
  });

  test.each([
    [String.raw`done\033(`, 'done'],
    [String.raw`done\033]0;my ti`, 'done'],
    [String.raw`\033]no end\nThe answer.`, 'o end\nThe answer.'],
  ])('has its output %s posted without the code that never ends', async (output, posted) => {
    expect((await run(`printf '${output}'`)).said.join('')).toBe(posted);
  });
});

describe('a command with JSON', () => {
  test('gets the fields of the prompt', async () => {
    const turn = { messages: [person(1, 'Hello')], epoch: 7, reason: 'resume', saidSoFar: ['So far.'] } as const;
    await run('cat > given', { output: 'json' }, turn);
    const given: unknown = JSON.parse(readFileSync(join(folder, 'given'), 'utf8'));
    const { parts: _parts, longest: _longest, ...whole } = prompt({ text: 'Build it', ...turn });
    expect(given).toEqual(whole);
  });

  test.each([
    ['{"text":"Done."}', ['Done.'], { how: 'completed' }],
    ['{"text":"Done.","hand_to":"qa"}', ['Done.'], { how: 'completed', handTo: 'qa' }],
    ['{"text":"Done.","hand_to":"nobody"}', ['Done.'], { how: 'completed' }],
    ['{"pass":true}', [], { how: 'passed' }],
    ['{"wait_for":"Which?"}', ['Which?'], { how: 'waiting', reason: 'answer' }],
    ['{}', [], { how: 'passed' }],
    ['', [], { how: 'passed' }],
  ])('answers %s', async (json, said, ending) => {
    expect(await run(`printf %s '${json}'`, { output: 'json' })).toMatchObject({ said, ending });
  });

  test('answers on several lines, each posted at once', async () => {
    const line = `printf '{"text":"O'; sleep 0.05; printf 'ne."}\n{"text":"Two."}\n\n{"text":"Three."}'`;
    expect((await run(line, { output: 'jsonl' })).said).toEqual(['One.', 'Two.', 'Three.']);
  });

  test.each(['json', 'jsonl'] as const)('that writes anything else fails: %s', async (output) => {
    const message = 'wrote no valid JSON answer: Oh no!';
    expect(await failure('echo "Oh   no!"', { output })).toEqual({ message, terminal: false });
  });
});

describe('the output of a command, in a channel', () => {
  test.each([
    ['text', 'Please check.\nTURN_COMPLETE @qa\n'],
    ['json', '{"text":"Please check.\\nTURN_COMPLETE @qa"}'],
    ['jsonl', '{"text":"Please check. TURN_COMPLETE @qa"}\n'],
  ] as const)('T14 as %s is posted without the signal, which hands over', async (output, written) => {
    const command = { command: 'printf', args: ['%s', written], input: 'stdin', output } as const;
    const backend = createCommandBackend({ ...command, cwd: folder, timeoutMs: 20_000, maxOutputBytes: 10_000 });
    const channel = await openChannel(backend);
    await channel.write('@dev build it');
    await channel.rests();
    await channel.stop();
    expect(channel.posts).toEqual(['Dev: Please check.', 'QA: QA here.', 'PM: PM here.']);
  });
});

describe('the environment of a command', () => {
  afterEach(() => void vi.unstubAllEnvs());

  test('has the default variables, the inherited variables and the configured variables', async () => {
    for (const [name, value] of Object.entries({ HOME: '/home/me', DISCORD_TOKEN: 'secret', MY_NAME: 'Anna' }))
      vi.stubEnv(name, value);
    const { said } = await run('env', { env: ['MY_NAME'], set: { COLOUR: 'blue' } });
    const names = said
      .join('')
      .trim()
      .split('\n')
      .map((line) => line.split('=')[0]);
    expect(names).toEqual(expect.arrayContaining(['PATH', 'HOME', 'MY_NAME', 'COLOUR']));
    expect(names).not.toContain('DISCORD_TOKEN');
  });

  test.each(['GIT_DIR', 'NODE_OPTIONS', 'LD_PRELOAD'])('never holds %s', async (name) => {
    const message = `these variables are not allowed in the environment of an agent: ${name}`;
    await expect(open('env', { env: [name] })).rejects.toThrow(message);
    await expect(open('env', { set: { [name]: 'x' } })).rejects.toMatchObject({ message, terminal: true });
  });
});

describe('a command that fails', () => {
  test.each([
    ['exit 3', 'exited with code 3'],
    ['echo loading >&2; echo "no model" >&2; exit 1', 'exited with code 1: no model'],
    [String.raw`printf '\033]0;title\007\033(Bno \033[31mmodel\033[m\n' >&2; exit 1`, 'exited with code 1: no model'],
    ['kill -9 $$', 'was ended by SIGKILL'],
    ['kill -15 $$', 'was ended by SIGTERM'],
  ])('by %j has a cause in one line', async (line, message) => {
    expect(await failure(line)).toEqual({ message, terminal: false });
  });

  test('never shows a secret of its environment', async () => {
    const { message } = await failure('echo "bad key $MY_KEY" >&2; exit 1', { set: { MY_KEY: 'abcdef-123' } });
    expect(message).toBe('exited with code 1: bad key [secret]');
  });

  test('keeps the text posted before', async () => {
    const { over, said } = ask(await open('echo Half; exit 1'));
    await expect(over).rejects.toThrow('exited with code 1');
    expect(said()).toEqual(['Half\n']);
  });

  test.each(['no-such-program', './no-such-program', '/no/such/program'])('is not found: %s', async (command) => {
    const message = `there is no program "${command}"`;
    await expect(open('', { command })).rejects.toMatchObject({ message, terminal: true });
  });

  test('because its folder does not exist is not tried again', async () => {
    const cwd = join(folder, 'nowhere');
    expect(await failure('true', { cwd })).toEqual({ message: `there is no folder ${cwd}`, terminal: true });
  });

  test('because it writes too much is stopped with its child processes', async () => {
    const { message } = await failure('echo $$ > pids; sleep 100 & echo $! >> pids; yes');
    expect(message).toBe('wrote more than 10000 bytes');
    await expect.poll(() => pids().filter(isAlive)).toEqual([]);
  });

  test('may write any amount to its standard error', async () => {
    expect((await run('head -c 5000000 /dev/zero >&2; echo Done')).said).toEqual(['Done\n']);
  });

  test('T18 because it hangs is ended by its own timeout, with its turn and its child processes', async () => {
    const hanging = { command: 'sh', args: ['-c', 'echo $$ > pids; sleep 100 & echo $! >> pids; wait'], cwd: folder };
    const limits = { timeoutMs: 400, maxOutputBytes: 10_000 };
    const channel = await openChannel(createCommandBackend({ ...hanging, ...limits, input: 'stdin', output: 'text' }), {
      interruptGraceSeconds: 1,
    });
    await channel.write('@dev build it');
    await channel.rests();
    expect(channel.ends()).toEqual([{ outcome: 'expired', said: false, signalled: false }]);
    await expect.poll(() => pids().filter(isAlive)).toEqual([]);
    await channel.stop();
    expect(channel.posts).toContain('QA: QA here.');
  });
});

describe('a command that is interrupted', () => {
  test('counts as interrupted although it exits with code 0', async () => {
    const agent = await open("trap 'echo late; exit 0' TERM; echo Half; while :; do sleep 0.02; done");
    const { over, spoken, said } = ask(agent);
    await spoken;
    await agent.interrupt(5_000);
    expect(await over).toEqual({ how: 'interrupted' });
    expect(said()).toEqual(['Half\n']);
  });

  test('is killed with its children when it does not end', async () => {
    const stubborn =
      "trap '' TERM; sh -c 'echo $$ >> pids; while :; do sleep 0.02; done' & echo $$ >> pids; echo Half; wait";
    const agent = await open(stubborn);
    const { over, spoken } = ask(agent);
    await spoken;
    await agent.interrupt(100);
    expect(await over).toEqual({ how: 'interrupted' });
    await expect.poll(() => pids().filter(isAlive)).toEqual([]);
  });

  test('before its start never answers', async () => {
    const agent = await open('sleep 1; echo Answer');
    const { over, said } = ask(agent);
    await agent.interrupt(100);
    expect([await over, said()]).toEqual([{ how: 'interrupted' }, []]);
  });
});

describe('a command that ends', () => {
  test('leaves no child process behind, and is not waited for', async () => {
    const { said } = await run('echo $$ > pids; sleep 100 & echo $! >> pids; echo Done');
    expect(said).toEqual(['Done\n']);
    await expect.poll(() => pids().filter(isAlive)).toEqual([]);
  });
});

/** Returns whether a process runs. A zombie process does not count. */
function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

describe('T72 a folder with a file that any known agent obeys', () => {
  const add = (): void => {
    mkdirSync(join(folder, '.codex'));
    writeFileSync(join(folder, '.codex/config.toml'), 'notify = ["./x"]');
  };

  test('is not opened for any command', async () => {
    add();
    await expect(open('touch ran')).rejects.toBeInstanceOf(UntrustedError);
  });

  test('gets no prompt once the file appears', async () => {
    const agent = await open('touch ran');
    add();
    await expect(ask(agent).over).rejects.toThrow('its folder is not trusted: .codex/config.toml');
    expect(existsSync(join(folder, 'ran'))).toBe(false);
  });
});
