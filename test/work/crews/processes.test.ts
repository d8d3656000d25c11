import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, test } from 'vitest';
import type { Config } from '../../../src/config/config.ts';
import { markedProcesses } from '../../../src/lib/marked-processes.ts';
import { systemClock, systemTimers } from '../../../src/lib/time.ts';
import { createBackends } from '../../../src/runtime/agent-factory.ts';
import { createLog } from '../../../src/runtime/log.ts';
import type { TrialCall } from '../../crews/program.ts';
import { makeRepository } from '../../../examples/crew/repository.ts';
import { slotEnvironment } from '../../../src/work/crews/checks/slots.ts';
import { until } from '../reviews/stage.ts';
import { finished, opened, repository, stageOf, ticketText } from './stage.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function realBackends(config: Config) {
  const log = createLog({ level: 'fatal', pretty: false, secrets: [] });
  const backends = await createBackends({ config, clock: systemClock(), timers: systemTimers, log });
  closing.push(() => backends.stop());
  await backends.start();
  return backends.backendFor;
}

const PROGRAM = fileURLToPath(new URL('../../crews/program.ts', import.meta.url));
const LEAVE = fileURLToPath(new URL('fixtures/leave.sh', import.meta.url));

const folder = mkdtempSync(join(tmpdir(), 'conch-worker-'));
let count = 0;

/**
 * A crew with one ticket, whose worker is a shell script. The script may call `leave NAME` (leaves a process running),
 * `note WORD` (writes to the log) and `has WORD` (true when a log line begins with WORD). `crew` returns settings:
 * its parameter `leave` makes a shell line that leaves a process running.
 */
async function room(worker: string, crew: (leave: (name: string) => string) => object = () => ({})) {
  const [file, script] = [join(folder, `log${(count += 1)}`), join(folder, `worker${count}`)];
  const functions = `has() { grep -qs "^$1" ${file}; }; note() { echo $1 >> ${file}; }`;
  writeFileSync(script, `leave() { sh ${LEAVE} ${file} "$1"; }; ${functions}\ncat > /dev/null\n${worker}`);
  const made = await stageOf({
    repo: repository({ 'c-1': ticketText('c-1') }),
    crew: {
      backend: { kind: 'command', command: '/bin/sh', args: [script] },
      trusted: true,
      ...crew((name) => `sh ${LEAVE} ${file} ${name}`),
    },
    config: { agents: [{ id: 'pm', backend: { kind: 'scripted', script: 'pm' } }] },
    backends: realBackends,
  });
  await made.command('/crew run');
  const first = () => made.app.crews.state('web')?.workers[0];
  await until(() => first()?.ticket != null);
  const mark = `${made.store.id}/web/${first()?.ticket?.session ?? '-'}`;
  const log = () => (existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : []);
  return { ...made, mark, first, log };
}

const marked = (mark: string): readonly string[] =>
  markedProcesses().flatMap((found) => (found.mark.startsWith(mark) ? [found.command] : []));

const COMMIT = 'echo 1 > one.txt; git add .; git commit -qm one';

test('processes that a step leaves running have the mark of its run, and have ended when the step is measured', async () => {
  const made = await room(`
    if [ ! -f one.txt ]; then ${COMMIT}; leave one
    elif has 'one ended'; then echo DONE
    else echo It still runs.; fi
  `);
  await finished(made, 1);
  expect(made.log()).toEqual([`one ${made.mark}`, 'one ended']);
  expect(made.app.crews.state('web')?.usage.steps).toBe(2);
});

test('processes that prepare and test commands leave running have ended with their command', async () => {
  const made = await room(`${COMMIT}; note step; echo DONE`, (leave) => ({
    prepare: [`${leave('prepare')}; true`],
    test: leave('test'),
  }));
  await finished(made, 1);
  const base = `${made.store.id}/web/main`;
  const ran = (mark: string, ...names: readonly string[]) =>
    names.flatMap((name) => [`${name} ${mark}`, `${name} ended`]);
  expect(made.log()).toEqual([
    ...ran(base, 'prepare', 'test'),
    ...ran(made.mark, 'prepare'),
    'step',
    ...ran(made.mark, 'test', 'test'),
  ]);
  expect(marked(made.store.id)).toEqual([]);
});

test('prepare, agent and tests have the same slot, ports, database suffix and project', async () => {
  const words = '"$CONCH_SLOT:$CONCH_PORT_BASE:$CONCH_DB_SUFFIX:$COMPOSE_PROJECT_NAME"';
  const seen = join(folder, 'slots');
  const made = await room(`${COMMIT}; echo agent:${words} >> ${seen}; echo DONE`, () => ({
    prepare: [`echo prepare:${words} >> ${seen}`],
    test: `echo tests:${words} >> ${seen}`,
  }));
  await finished(made, 1);
  const [, number = ''] = /^agent:(\d+):/m.exec(readFileSync(seen, 'utf8')) ?? [];
  const slot = Object.values(slotEnvironment('web', Number(number))).join(':');
  const own = readFileSync(seen, 'utf8')
    .split('\n')
    .filter((line) => line.includes(slot));
  expect(own).toEqual(['prepare', 'agent', 'tests', 'tests'].map((name) => `${name}:${slot}`));
});

test('processes of a step that reached its time limit have ended before the step is tried again', async () => {
  const made = await room(
    `
      if has 'one ended'; then ${COMMIT}; echo DONE; exit; fi
      leave one; sleep 1000
    `,
    () => ({ stepTimeoutSeconds: 3, quietSeconds: 3 }),
  );
  await finished(made, 1);
  expect(made.log()).toEqual([`one ${made.mark}`, 'one ended']);
});

test('processes that a step leaves running end at /crew stop now and at /crew kill', async () => {
  const made = await room('if has one; then leave two; else leave one; fi; sleep 1000');
  await until(() => made.log().length === 1);
  await made.command('/crew stop now');
  await until(() => made.log().includes('one ended'));
  await until(() => marked(made.mark).length === 0);
  await made.command('/crew run');
  await until(() => made.log().length === 3);
  await made.command('/crew kill A');
  await until(() => made.first()?.ticket?.session !== made.mark.slice(-36));
  expect(made.log().slice(0, 4)).toEqual([`one ${made.mark}`, 'one ended', `two ${made.mark}`, 'two ended']);
});

test('/crew doctor names processes that belong to no ticket, and Conch ends its own ones when it stops', async () => {
  const made = await room('leave one; note begun; sleep 1000');
  await until(() => made.log().includes('begun'));
  expect(await made.command('/crew doctor')).toMatchObject({ text: 'git and the crew agree.' });
  const cwd = made.first()?.ticket?.worktree ?? '';
  const stray = (mark: string) => spawn('sleep', ['1000'], { cwd, env: { ...process.env, CONCH_RUN: mark } }).pid;
  const [ours, others] = [stray(`${made.store.id}/web/gone`), stray('other/web/gone')];
  closing.push(() => process.kill(others ?? 0));
  const { text } = await made.command('/crew doctor');
  expect(text.split('\n').toSorted()).toEqual(
    [ours, others]
      .map((pid) => `A process belongs to no ticket: ${pid} (sleep 1000) in ${cwd}. To end it: kill ${pid}`)
      .toSorted(),
  );
  await made.stop();
  opened.length = 0;
  expect(marked(made.store.id)).toEqual([]);
  expect(marked('other/web/gone')).toHaveLength(1);
});

test('processes that a killed Conch left have ended before any command runs', { timeout: 120_000 }, async () => {
  const repo = makeRepository({ tickets: ['t-01'] });
  const dataDir = mkdtempSync(join(tmpdir(), 'conch-crew-killed-'));
  const log = join(dataDir, 'left');
  const start = (prepare: string) => {
    const call: TrialCall = {
      repo,
      dataDir,
      prepare: [prepare],
      workers: 1,
      kind: 'command',
      worker: 'worker.ts',
      stepMs: 0,
      script: {},
      test: 'none',
      tickets: 1,
      people: null,
      killAt: 0,
    };
    return spawn(process.execPath, [PROGRAM, JSON.stringify(call)], { stdio: ['ignore', 'ignore', 'inherit'] });
  };
  const killed = start(`sh ${LEAVE} ${log} one; sleep 1000`);
  await until(() => existsSync(log) && readFileSync(log, 'utf8').endsWith('\n'));
  const mark = readFileSync(log, 'utf8').trim().split(' ')[1] ?? '';
  killed.kill('SIGKILL');
  await once(killed, 'exit');
  expect(marked(mark)).not.toEqual([]);
  const again = start(`cat ${log} > ${log}.seen`);
  await once(again, 'exit');
  expect(again.exitCode).toBe(0);
  expect(readFileSync(`${log}.seen`, 'utf8')).toBe(`one ${mark}\none ended\n`);
  expect(marked(mark.replace(/[^/]*$/, ''))).toEqual([]);
});
