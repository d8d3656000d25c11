import { INTERRUPT_MODES, MODES } from '../../src/turns/floor/policies.ts';
import { describe, expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { turnKeys } from '../../src/config/schema.ts';
import { ANNOUNCEMENTS } from '../../src/config/announcements.ts';
import { load, world } from './world.ts';

describe('the six defaults of the specification', () => {
  const { turnConfig } = load({});

  test('"Timeout duration per agent (default: 60 seconds)": defaultTimeoutSeconds is 60', () => {
    expect(turnConfig.defaultTimeoutSeconds).toBe(60);
  });
  test('"Default: inject": humanInterruptMode is inject', () => {
    expect(turnConfig.humanInterruptMode).toBe('inject');
  });
  test('announceTimeouts is true', () => {
    expect(turnConfig.announceTimeouts).toBe(true);
  });
  test('announceDisconnects is true', () => {
    expect(turnConfig.announceDisconnects).toBe(true);
  });
  test('autoDetectTurnEnd is false', () => {
    expect(turnConfig.autoDetectTurnEnd).toBe(false);
  });
  test('autoDetectSilenceSeconds is 10', () => {
    expect(turnConfig.autoDetectSilenceSeconds).toBe(10);
  });
  test("the specification's example file equals the defaults", () => {
    const file = {
      turnConfig: {
        defaultTimeoutSeconds: 60,
        humanInterruptMode: 'inject',
        announceTimeouts: true,
        announceDisconnects: true,
        autoDetectTurnEnd: false,
        autoDetectSilenceSeconds: 10,
      },
    };
    expect({ ...load(file), file: null }).toEqual(loadConfig(world({})));
  });
});

describe('the further defaults', () => {
  test('have the documented values', () => {
    expect(load({}).turnConfig).toMatchObject({
      maxTurnSeconds: 900,
      waitTimeoutSeconds: 600,
      waitPolicy: 'hold',
      heartbeatTimeoutSeconds: 45,
      heartbeatSeconds: 15,
      reconnectGraceSeconds: 10,
      coalesceMs: 500,
      order: 'round-robin',
      rounds: 1,
      maxTurns: 12,
      turnCompleteSignal: 'TURN_COMPLETE',
      onRestart: 'resume',
      rejoin: null,
      interruptGraceSeconds: 5,
      maxConsecutiveErrors: 5,
      maxTotalErrors: 20,
      interruptResponder: null,
      facilitator: null,
      defaultAgent: null,
      threads: 'own',
      receipts: true,
      maxHeld: 500,
    });
  });
  test('announcements have the texts of the specification', () => {
    expect(ANNOUNCEMENTS).toMatchObject({
      timeout: { text: '⏱️ {agent} turn timed out' },
      disconnect: { text: '⚠️ {agent} disconnected, skipping turn: {cause}' },
      nobody: { text: '⚠️ No agents available in this channel' },
      limit: { text: '⏸ {used} of {max} turns without a person. Write a message or run /floor resume.' },
      stopped: { text: '⏹ Stopped {agent}. {kept} message(s) kept.' },
    });
  });
  test('the modes and their aliases are those of the floor', () => {
    const names = INTERRUPT_MODES.flatMap((mode) => [mode, ...MODES[mode].aliases].map((name) => [name, mode]));
    const read = names.map(([name]) => [name, turnKeys.humanInterruptMode.parse(name)]);
    expect(read).toEqual(names);
    expect(turnKeys.humanInterruptMode.safeParse('other').success).toBe(false);
  });
});

describe('no configuration file', () => {
  const config = loadConfig(world({}));

  test('gives the demo: three scripted agents at the floor of console:demo', () => {
    expect(config.file).toBeNull();
    expect(config.channels.map(({ id, name, agents }) => ({ id, name, agents }))).toEqual([
      { id: 'console:demo', name: 'demo', agents: ['pm', 'dev', 'qa'] },
    ]);
    expect(config.agents.map((agent) => agent.backend)).toEqual([
      { kind: 'scripted', script: 'pm' },
      { kind: 'scripted', script: 'dev' },
      { kind: 'scripted', script: 'qa' },
    ]);
  });
  test('puts the page on port 7420 and the data into .conch', () => {
    expect(config.adapters.console).toEqual({ enabled: true, port: 7420 });
    expect(config.dataDir).toBe('/work/.conch');
  });
});

describe('the aliases of the modes', () => {
  test.each([
    ['steer', 'inject'],
    ['followup', 'queue'],
    ['collect', 'queue'],
    ['concurrent', 'parallel'],
    ['interrupt', 'interrupt'],
  ])('%s is read as %s, in general and for one channel', (alias, mode) => {
    const channels = [{ id: 'console:a', agents: [], humanInterruptMode: alias }];
    const config = load({ turnConfig: { humanInterruptMode: alias }, channels });
    expect(config.turnConfig.humanInterruptMode).toBe(mode);
    expect(config.channels[0]?.turnConfig.humanInterruptMode).toBe(mode);
  });
});
