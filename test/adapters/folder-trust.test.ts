import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createAcpBackend } from '../../src/agents/backends/acp/acp-backend.ts';
import { ALL_FILES } from '../../src/agents/trust/repository-files.ts';
import { FAKE_ACP, acpRig } from '../agents/backends/acp/acp-rig.ts';
import type { AcpRig } from '../agents/backends/acp/acp-rig.ts';
import { rig as consoleRig } from './console/stage.ts';
import { rig as discordRig } from './discord/stage.ts';
import { begin, newDisk, seeEqual } from './program.ts';
import type { Disk, Program } from './program.ts';
import type { Stage } from './rig.ts';
import { rig as slackRig } from './slack/stage.ts';

const SETTINGS = '.claude/settings.json';
/** Heartbeat timeout: 60 s of real time, because time runs ten times faster here. A slow agent must stay online. */
const PATIENCE_SECONDS = 600;

type Place = {
  readonly stages: readonly [Stage, Stage, Stage];
  readonly agent: AcpRig;
  readonly write: (path: string, text: string) => void;
  readonly remove: (path: string) => void;
  readonly start: (turnConfig?: object) => Promise<Program>;
};

/** Runs one program on three platforms. The agent dev is a real process, in a folder whose settings run a program. */
async function inFolder(act: (place: Place) => Promise<void>): Promise<void> {
  using disk: Disk = newDisk();
  const cwd = mkdtempSync(join(tmpdir(), 'conch-trust-'));
  const write = (path: string, text: string): void => {
    mkdirSync(join(cwd, path, '..'), { recursive: true });
    writeFileSync(join(cwd, path), text);
  };
  write(SETTINGS, '{ "apiKeyHelper": "./key.sh\u202E" }');
  const agent = await acpRig();
  const stages = [await consoleRig.open(), await discordRig.open(), await slackRig.open()] as const;
  const [page, ...beside] = stages;
  const folder = { cwd, files: ALL_FILES.files };
  const programs: Program[] = [];
  const start = async (turnConfig: object = {}): Promise<Program> => {
    const program = await begin(page, disk, consoleRig.capabilities, {
      beside,
      turnConfig: { heartbeatTimeoutSeconds: PATIENCE_SECONDS, ...turnConfig },
      backendFor: (id, trust) =>
        id !== 'dev'
          ? null
          : createAcpBackend({
              profile: 'generic',
              command: process.execPath,
              args: [FAKE_ACP],
              cwd,
              env: agent.env,
              quietMs: 30,
              stopGraceMs: 200,
              gate: trust.gateFor(id, folder),
            }),
    });
    programs.push(program);
    return program;
  };
  try {
    await act({ stages, agent, write, start, remove: (path) => rmSync(join(cwd, path)) });
    for (const { broken } of programs) expect(broken).toEqual([]);
  } finally {
    for (const program of programs) await program.stop();
    for (const stage of stages) await stage.close();
    await agent.stop();
    rmSync(cwd, { recursive: true });
  }
}

const TRUST = 'Trust this folder (Dev)';
const LEAVE = 'Do not start (Dev)';
const buttonsOn = async (stage: Stage): Promise<readonly string[]> => (await stage.card())?.buttons ?? [];
const isAsking = async (stage: Stage): Promise<boolean> => (await buttonsOn(stage)).includes(TRUST);
const statusOf = (program: Program, channel: string): string | undefined =>
  program.view(channel).seats.find(({ agent }) => agent === 'dev')?.status;

test.each([
  ['the console', 0],
  ['Discord', 1],
  ['Slack', 2],
] as const)('T72 asks on every platform to trust a folder, and starts the agent by a button on %s', (_, at) =>
  inFolder(async ({ stages, agent, start }) => {
    const program = await start();
    const asked = stages[at];
    for (const stage of stages) {
      await seeEqual(() => isAsking(stage), true);
      const text = (await stage.read()).map((seen) => seen.text).join('\n');
      expect(text).toContain(SETTINGS);
      expect(text).toContain('apiKeyHelper');
      expect(text).toContain('u{202E}');
      expect(statusOf(program, stage.channel)).toBe('OFFLINE');
    }
    expect(agent.told.pids).toEqual([]);
    const card = await asked.card();
    const others = at === 0 ? [] : [await card?.press('bob', TRUST)];
    expect(others.every((told) => told?.includes('Only operators'))).toBe(true);
    expect(agent.told.pids).toEqual([]);
    expect(await card?.press('ann', TRUST)).toContain('Trusted');
    for (const stage of stages) {
      await seeEqual(() => statusOf(program, stage.channel) !== 'OFFLINE', true);
      await seeEqual(() => isAsking(stage), false);
    }
    expect(agent.told.pids).toHaveLength(1);
  }),
);

test('T72 keeps a folder trusted over a restart, and asks again when a file changed while a session was open', () =>
  inFolder(async ({ stages, agent, write, start }) => {
    const [, discord] = stages;
    const first = await start();
    await seeEqual(() => isAsking(discord), true);
    await (await discord.card())?.press('ann', TRUST);
    await seeEqual(() => statusOf(first, discord.channel) !== 'OFFLINE', true);
    await first.stop();
    const program = await start();
    await seeEqual(() => statusOf(program, discord.channel) !== 'OFFLINE', true);
    expect(await isAsking(discord)).toBe(false);
    write('.opencode/plugins/more.ts', 'export const more = 1;');
    await discord.write('ann', '@Dev go on');
    await seeEqual(() => isAsking(discord), true);
    expect(statusOf(program, discord.channel)).toBe('OFFLINE');
    expect(agent.told.seen).toEqual([]);
    expect((await discord.read()).map((seen) => seen.text).join('\n')).toContain('.opencode/plugins/more.ts');
  }));

test('T72 an older button does not trust a changed folder, and "Do not start" closes the question on all platforms', () =>
  inFolder(async ({ stages, agent, write, start }) => {
    const [, discord, slack] = stages;
    const first = await start();
    await seeEqual(() => isAsking(discord), true);
    const old = await discord.card();
    write(SETTINGS, '{ "apiKeyHelper": "./other.sh" }');
    expect(await old?.press('ann', TRUST)).toContain('Not done');
    await seeEqual(async () => (await slack.read()).some(({ text }) => text.includes('other.sh')), true);
    await seeEqual(() => isAsking(slack), true);
    expect(await (await slack.card())?.press('ann', LEAVE)).toContain('Not trusted');
    for (const stage of stages) await seeEqual(() => isAsking(stage), false);
    await first.stop();
    const program = await start();
    await program.rests(discord.channel);
    expect(await isAsking(discord)).toBe(false);
    expect([statusOf(program, discord.channel), agent.told.pids]).toEqual(['OFFLINE', []]);
  }));

test('T72 ends the sessions of all channels at the next heartbeat after a file appeared, and restarts the agent when the file is removed', () =>
  inFolder(async ({ stages, agent, write, start, remove }) => {
    remove(SETTINGS);
    const program = await start({ heartbeatSeconds: 2 });
    for (const stage of stages) {
      await seeEqual(() => statusOf(program, stage.channel) !== 'OFFLINE', true);
      expect(await isAsking(stage)).toBe(false);
    }
    write('.github/hooks/start.json', '{}');
    for (const stage of stages) {
      await seeEqual(() => isAsking(stage), true);
      expect(statusOf(program, stage.channel)).toBe('OFFLINE');
    }
    expect(agent.told.pids).toHaveLength(1);
    remove('.github/hooks/start.json');
    for (const stage of stages) {
      await seeEqual(() => statusOf(program, stage.channel) !== 'OFFLINE', true);
      await seeEqual(() => isAsking(stage), false);
    }
    expect(agent.told.pids).toHaveLength(2);
  }));
