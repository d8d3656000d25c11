import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { ConfigError } from '../../src/config/error.ts';
import { loadConfigFrom } from '../../src/config/load.ts';
import { thisWorld } from '../../src/config/world.ts';
import { changedUntilRestart, watchConfig } from '../../src/config/watch.ts';
import { load, world } from './world.ts';

/** A watched file. `look` checks the file once. `save` changes the file and checks twice, which reads it. */
const stage = (initial: string, applied: () => Promise<void> = async () => undefined) => {
  let text: string | null = initial;
  const told: (string | number)[] = [];
  const timers = manualTimers();
  const watching = watchConfig({
    read: () => text,
    text: initial,
    load: () => loadConfigFrom(world(text === null ? {} : { 'turnConfig.json': text }), 'turnConfig.json'),
    onChange: (config) => {
      told.push(config.turnConfig.maxTurns);
      return applied();
    },
    onInvalid: (error) => told.push(error.problems.map((problem) => problem.path).join()),
    timers,
  });
  const look = async (next: string | null = text): Promise<void> => {
    text = next;
    timers.pass();
    await new Promise(setImmediate);
  };
  const save = async (next: string | null): Promise<void> => {
    await look(next);
    await look();
  };
  return { told, look, save, watching, timers };
};

/** Timers that run when `pass` is called. */
const manualTimers = () => {
  const due = new Set<() => void>();
  return {
    after(_ms: number, run: () => void) {
      due.add(run);
      return { cancel: () => void due.delete(run) };
    },
    pass() {
      const now = [...due];
      due.clear();
      for (const run of now) run();
    },
    waiting: () => due.size,
  };
};

const withTurns = (maxTurns: number): string => JSON.stringify({ turnConfig: { maxTurns } });

describe('a watched configuration', () => {
  test('is applied when its file changes', async () => {
    const { told, save } = stage('{}');
    await save(withTurns(3));
    expect(told).toEqual([3]);
  });
  test('is not loaded again when its text is the same', async () => {
    const { told, save } = stage('{}');
    await save('{}');
    expect(told).toEqual([]);
  });
  test('is not read while it is being written', async () => {
    const { told, look } = stage('{}');
    for (const half of ['', '{ "turnConfig"', withTurns(5)]) await look(half);
    expect(told).toEqual([]);
    await look();
    expect(told).toEqual([5]);
  });
  test('changes nothing while it is invalid, reports the problem once, and is applied when it is valid again', async () => {
    const { told, save } = stage('{}');
    await save('{ "turnConfig": { "maxTurns": "x" } }');
    await save('{ "turnConfig": { "maxTurns": "x" } }');
    await save(withTurns(4));
    expect(told).toEqual(['turnConfig.maxTurns', 4]);
  });
  test('is reported as missing when its file is deleted, and not replaced with the demo', async () => {
    const { told, save } = stage(withTurns(3));
    await save(null);
    expect(told).toEqual(['CONCH_CONFIG']);
  });
  test('that changes again while a change is applied is applied again with its newest text', async () => {
    const first = Promise.withResolvers<void>();
    const { told, save, look } = stage('{}', () => first.promise);
    await save(withTurns(3));
    await save(withTurns(4));
    expect(told).toEqual([3]);
    first.resolve();
    await look();
    await look();
    await look();
    expect(told).toEqual([3, 4]);
  });
  test('is not checked after the end of the watch', () => {
    const { watching, timers } = stage('{}');
    watching.cancel();
    expect(timers.waiting()).toBe(0);
  });
});

describe('a file on the disk', () => {
  test('that is not UTF-8 is refused', () => {
    const directory = mkdtempSync(join(tmpdir(), 'conch-'));
    onTestFinished(() => rmSync(directory, { recursive: true }));
    writeFileSync(join(directory, 'turnConfig.json'), Buffer.from('"\xff"', 'latin1'));
    const read = () => loadConfigFrom({ ...thisWorld(), cwd: directory }, 'turnConfig.json');
    expect(read).toThrow(ConfigError);
    expect(read).toThrow('This file cannot be read');
  });
});

describe('T41 keys that are read at the start only', () => {
  const first = load({});
  test.each<[string, object, readonly string[]]>([
    ['none of them', { turnConfig: { maxTurns: 3 }, budgets: { day: { tokens: 5 } } }, []],
    ['a port', { adapters: { console: { port: 7_431 } } }, ['adapters.console.port']],
    [
      'several of them',
      { log: { level: 'debug' }, turnConfig: { heartbeatSeconds: 5 }, remote: { origins: ['https://example.org'] } },
      ['turnConfig.heartbeatSeconds', 'remote.origins', 'log.level'],
    ],
  ])('are listed if a reload changes them: %s', (_, file, told) => {
    expect(changedUntilRestart(first, load(file))).toEqual(told);
  });
  test('are listed if a reload removes them', () => {
    const agents = [{ id: 'pm', backend: { kind: 'scripted', script: 'pm' } }];
    const before = load({
      agents,
      store: { postgres: 'postgres://ann:pa55@db/conch' },
      adapters: { slack: { userGroups: { S0123456789: 'pm' } } },
    });
    expect(changedUntilRestart(before, load({ agents }))).toEqual([
      'adapters.slack.userGroups.S0123456789',
      'store.postgres',
      'store.schema',
    ]);
  });
  test('are not listed when they have the values of the start again', () => {
    expect(changedUntilRestart(first, load({ log: { level: 'info' } }))).toEqual([]);
  });
});
