import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { ConfigError } from '../../src/config/error.ts';
import { loadConfigFrom } from '../../src/config/load.ts';
import { thisWorld } from '../../src/config/world.ts';
import { changedUntilRestart, createReload, watchConfig } from '../../src/config/watch.ts';
import type { Config } from '../../src/config/config.ts';
import { load, world } from './world.ts';

const stage = (initial: string) => {
  let text: string | null = initial;
  const told: (string | number)[] = [];
  const reload = createReload(initial, {
    load: () => loadConfigFrom(world(text === null ? {} : { 'turnConfig.json': text }), 'turnConfig.json'),
    onChange: (config) => told.push(config.turnConfig.maxTurns),
    onInvalid: (error) => told.push(error.problems.map((problem) => problem.path).join()),
  });
  const save = (next: string | null) => {
    text = next;
    reload.consider(next);
  };
  return { told, save };
};

describe('a watched configuration', () => {
  test('is passed on when its file changed', () => {
    const { told, save } = stage('{}');
    save('{ "turnConfig": { "maxTurns": 3 } }');
    expect(told).toEqual([3]);
  });
  test('is not loaded again when its text is the same', () => {
    const { told, save } = stage('{}');
    save('{}');
    expect(told).toEqual([]);
  });
  test('changes nothing when it became invalid, says why once, and goes on when it is mended', () => {
    const { told, save } = stage('{}');
    save('{ "turnConfig": { "maxTurns": "x" } }');
    save('{ "turnConfig": { "maxTurns": "x" } }');
    save('{ "turnConfig": { "maxTurns": 4 } }');
    expect(told).toEqual(['turnConfig.maxTurns', 4]);
  });
  test('does not become the demo when its file goes away', () => {
    const { told, save } = stage('{ "turnConfig": { "maxTurns": 3 } }');
    save(null);
    expect(told).toEqual(['CONCH_CONFIG']);
  });
});

describe('a file on the disk', () => {
  test('is noticed when an editor replaces it, once its writing has settled', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'conch-'));
    const path = join(directory, 'turnConfig.json');
    writeFileSync(path, '{}');
    const waits: number[] = [];
    const changed = new Promise<Config>((resolve, reject) => {
      const watching = watchConfig({
        path,
        text: '{}',
        load: () => loadConfigFrom({ ...thisWorld(), env: {}, cwd: directory }, path),
        onChange: resolve,
        onInvalid: reject,
        settleMs: 7,
        after: (ms, run) => {
          waits.push(ms);
          const timer = setImmediate(run);
          return { cancel: () => clearImmediate(timer) };
        },
      });
      onTestFinished(() => {
        watching.close();
        rmSync(directory, { recursive: true });
      });
    });
    writeFileSync(join(directory, 'new'), '{ "turnConfig": { "maxTurns": 9 } }');
    renameSync(join(directory, 'new'), path);
    expect((await changed).turnConfig.maxTurns).toBe(9);
    expect(new Set(waits)).toEqual(new Set([7]));
  });
  test('that is not UTF-8 is refused', () => {
    const directory = mkdtempSync(join(tmpdir(), 'conch-'));
    onTestFinished(() => rmSync(directory, { recursive: true }));
    writeFileSync(join(directory, 'turnConfig.json'), Buffer.from('"\xff"', 'latin1'));
    const read = () => loadConfigFrom({ ...thisWorld(), cwd: directory }, 'turnConfig.json');
    expect(read).toThrow(ConfigError);
    expect(read).toThrow('It cannot be read');
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
  ])('are told when a reload changes %s', (_, file, told) => {
    expect(changedUntilRestart(first, load(file))).toEqual(told);
  });
  test('are told no more when they are as at the start again', () => {
    expect(changedUntilRestart(first, load({ log: { level: 'info' } }))).toEqual([]);
  });
});
