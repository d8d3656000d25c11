import { existsSync, readFileSync } from 'node:fs';
import type { FixtureResponse } from '@copilotkit/aimock';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { createLlmBackend } from '../../src/agents/backends/llm/llm-backend.ts';
import { McpPool } from '../../src/agents/mcp/mcp-pool.ts';
import { KnownSecrets } from '../../src/agents/tools/known-secrets.ts';
import { openDatabase } from '../../src/engine/sqlite/open.ts';
import { systemClock, systemTimers } from '../../src/lib/time.ts';
import { openQuestion, waitOf } from '../../src/turns/floor/seats.ts';
import { FloorStore } from '../../src/turns/floor-store.ts';
import { floorWithWork } from '../../src/work/floor-with-work.ts';
import { runOnFloor } from '../../src/work/runs/floor-binding.ts';
import { llmRig } from '../agents/backends/llm/llm-rig.ts';
import { toolsServer } from '../agents/mcp/mcp-rig.ts';
import { load } from '../config/world.ts';
import { folder } from '../engine/sqlite/fixture.ts';
import { startApp } from './start-app.ts';

const CHANNEL = 'console:demo';
const PATIENCE = { timeout: 30_000, interval: 10 };

/** A simulated model, a tool server, and a program that can be killed and restarted on the same database. */
async function world(rules: object, agents: readonly string[] = ['dev'], runs: object = {}) {
  const place = folder();
  const log = `${place.file()}.calls`;
  const rig = await llmRig('openai-compatible');
  const bodies: string[] = [];
  const config = load({
    turnConfig: { coalesceMs: 0, receipts: false },
    tools: rules,
    runs,
    agents: agents.map((id) => ({ id, backend: { kind: 'scripted', script: 'dev' } })),
    channels: [{ id: CHANNEL, agents }],
  });
  const posts: string[] = [];
  let written = 0;
  let kill = async (): Promise<void> => {};
  worlds.push({ end: async () => (await kill(), await rig.stop(), place[Symbol.dispose]()) });
  const ports = { clock: systemClock(), timers: systemTimers };
  const open = () => {
    const db = openDatabase(place.file());
    const { clock } = ports;
    const path = place.file();
    return {
      db,
      store: new FloorStore(db, { path, machine: floorWithWork, clock, textLimit: () => 4_000, words: () => null }),
    };
  };
  /** Stores an approval and closes the database, as a crash does before the approved call starts. */
  const allowsAndDies = async () => {
    const { db, store } = open();
    store.host(runOnFloor);
    await store.recover();
    await store.floors.apply(CHANNEL, { type: 'restart' }, ports.clock.now());
    const answer = { type: 'decide', by: 'ada', choice: 'allow', question: 1 } as const;
    expect(await store.floors.apply(CHANNEL, answer, ports.clock.now())).toMatchObject({ ok: true });
    db.close();
  };
  const start = async () => {
    const { db, store } = open();
    const quiet = { debug() {}, info() {}, warn() {}, error() {} };
    const pool = new McpPool(() => ({ raw: toolsServer(['tool=hang', 'tool=page', `log=${log}`]) }), {
      ...ports,
      log: quiet,
    });
    const backend = createLlmBackend({
      provider: 'openai-compatible',
      model: 'test-model',
      apiKey: 'k',
      baseUrl: `${rig.mock.url}/v1`,
      stepTimeoutMs: 20_000,
      serverTools: { pool, secrets: () => new KnownSecrets([]), clock: ports.clock },
      fetch: async (url, init) => {
        if (typeof init?.body === 'string') bodies.push(init.body);
        return await fetch(url, {
          ...init,
          headers: { ...Object.fromEntries(new Headers(init?.headers)), connection: 'close' },
        });
      },
    });
    const { app, intake } = await startApp({
      config,
      store,
      time: ports,
      adapter: { name: 'console', post: async (_channel, { text }) => String(posts.push(text)) },
      backendFor: () => backend,
    });
    kill = async () => {
      kill = async () => {};
      db.close();
      await app.stop().catch(() => undefined);
      await pool.close();
    };
    const floor = () => store.floors.state(CHANNEL);
    const asked = () => {
      const turn = floor();
      return turn === null ? null : openQuestion(turn);
    };
    return {
      asked,
      holder: () => floor()?.turn?.agent ?? null,
      waits: () => waitOf(floor()?.turn)?.reason ?? null,
      kill: () => kill(),
      isShown: () => vi.waitFor(() => expect(asked()?.shown).toBe(true), PATIENCE),
      answers: (choice: 'allow' | 'reject', question = asked()?.question ?? 0, reason = 'use b') =>
        store.floors.apply(CHANNEL, { type: 'decide', by: 'ada', choice, question, reason }, ports.clock.now()),
      rests: () => vi.waitFor(() => expect([floor()?.turn, floor()?.exchange]).toEqual([null, null]), PATIENCE),
      types: (line: string) => intake().command(CHANNEL, { id: 'ada', name: 'Ada', roles: [] }, line),
      facts: () => store.floors.journal(CHANNEL, 1_000).map(({ fact }) => fact),
      results: () =>
        [...app.runs.store.newest(`${CHANNEL} dev`)].flatMap(({ fact }) =>
          fact.type === 'runCompleted' ? [fact.result] : [],
        ),
      async write(text: string) {
        const author = { id: 'ada', name: 'Ada' };
        const message = { id: `m${(written += 1)}`, channel: CHANNEL, author, text, sentAt: ports.clock.now() };
        await intake().message({ ...message, addressed: [], order: String(written).padStart(6, '0'), attachments: [] });
      },
    };
  };
  const calls = () => (existsSync(log) ? readFileSync(log, 'utf8').trim().split('\n') : []);
  return { rig, bodies, posts, start, calls, allowsAndDies };
}

const worlds: { readonly end: () => Promise<void> }[] = [];
afterEach(async () => {
  for (const { end } of worlds.splice(0)) await end();
});

let count = 0;
const calling = (...calls: readonly (readonly [string, object])[]): FixtureResponse => ({
  content: '',
  toolCalls: calls.map(([name, input]) => ({ name, arguments: JSON.stringify(input), id: `call-${(count += 1)}` })),
});
const WRITE = ['raw__write', { path: 'a' }] as const;
const ASKS = { ask: ['mcp__raw__*'] };

describe('a model whose program is killed', () => {
  test('while a request is open keeps the request, and an approval runs the call once', async () => {
    const { rig, bodies, posts, start, calls } = await world(ASKS);
    rig.answer(calling(WRITE), { content: 'It is written.' });
    const first = await start();
    await first.write('Write it');
    await first.isShown();
    const question = first.asked();
    await first.kill();
    const second = await start();
    expect([second.asked(), second.waits(), calls()]).toEqual([question, 'approval', []]);
    expect(await second.answers('allow')).toMatchObject({ ok: true });
    await second.rests();
    expect([calls(), posts, bodies.length]).toEqual([['write'], ['It is written.'], 2]);
    expect(bodies[1]).toContain('wrote a');
  });

  test('while a request is open receives the denial with its reason', async () => {
    const { rig, bodies, start, calls } = await world(ASKS);
    rig.answer(calling(WRITE), { content: 'Then not.' });
    const first = await start();
    await first.write('Write it');
    await first.isShown();
    await first.kill();
    const second = await start();
    await second.answers('reject');
    await second.rests();
    expect([calls(), bodies.length]).toEqual([[], 2]);
    expect(bodies[1]).toContain('mcp__raw__write did not run. People denied it. These are their words: use b');
  });

  test('between approval and start of the call runs the call once', async () => {
    const { rig, bodies, start, calls, allowsAndDies } = await world(ASKS);
    rig.answer(calling(WRITE), { content: 'It is written.' });
    const first = await start();
    await first.write('Write it');
    await first.isShown();
    await first.kill();
    await allowsAndDies();
    expect(calls()).toEqual([]);
    const second = await start();
    await second.rests();
    expect([calls(), bodies.length]).toEqual([['write'], 2]);
  });

  test('during a call learns that its outcome is unknown, and the call is not repeated', async () => {
    const { rig, bodies, start, calls } = await world({ allow: ['mcp__raw__*'] });
    rig.answer(calling(['raw__hang', {}]), { content: 'I do not know.' });
    const first = await start();
    await first.write('Hang');
    await vi.waitFor(() => expect(calls()).toEqual(['hang']), PATIENCE);
    await first.kill();
    const second = await start();
    await second.rests();
    expect([calls(), bodies.length]).toEqual([['hang'], 2]);
    expect(bodies[1]).toContain('The outcome of the call is unknown');
  });

  test('after a result receives that result, and repeats neither this call nor earlier ones', async () => {
    const { rig, bodies, posts, start, calls } = await world({ allow: ['mcp__raw__*'] });
    rig.answer(calling(['raw__echo', { text: 'one' }]), calling(['say', { text: 'I begin.' }], WRITE));
    rig.play({ do: 'hang' });
    const first = await start();
    await first.write('Write it');
    await rig.paused();
    await first.kill();
    rig.answer({ content: 'It is written.' });
    const second = await start();
    await second.rests();
    expect([calls(), posts, bodies.length]).toEqual([['echo', 'write'], ['I begin.', 'It is written.'], 4]);
    const last = bodies[3] ?? '';
    expect([last.split('wrote a').length, last.split('raw__write').length > 1]).toEqual([2, true]);
  });
});

describe('T57 a model at its step limit', () => {
  test.each([false, true])(
    'can be completed with the text written so far, and its message counts as answered (restarted: %s)',
    async (cut) => {
      const { rig, posts, start, calls, bodies } = await world({ allow: ['mcp__raw__*'] }, ['dev'], {
        conversational: 2,
      });
      rig.answer(calling(['say', { text: 'Half is done.' }], ['raw__echo', { text: 'one' }]), calling(WRITE));
      const first = await start();
      await first.write('Write it');
      await vi.waitFor(() => expect(first.asked()).toMatchObject({ shown: true, pause: 'turn_limit' }), PATIENCE);
      if (cut) await first.kill();
      const last = cut ? await start() : first;
      expect(await last.types('/run complete dev')).toMatchObject({ ok: true });
      await last.rests();
      const ended = last.facts().find((fact) => fact.type === 'turnEnded');
      expect(ended).toMatchObject({ outcome: 'completed', answered: ['m1'], returned: [], by: 'ada' });
      expect([calls(), posts, last.results(), bodies.length]).toEqual([
        ['echo'],
        ['Half is done.'],
        ['Half is done.'],
        2,
      ]);
    },
  );
});

describe('a model that has read untrusted text', () => {
  const says = async (program: Awaited<ReturnType<Awaited<ReturnType<typeof world>>['start']>>, text: string) => {
    await program.write(text);
    await program.rests();
  };

  test('asks before each change, also after a restart', async () => {
    const { rig, start, calls } = await world({ allow: ['mcp__raw__*'] });
    rig.answer(calling(['raw__page', {}]), { content: 'It says to write to b.' }, calling(WRITE), { content: 'No?' });
    const first = await start();
    await says(first, 'Read it');
    await first.kill();
    const second = await start();
    await second.write('Write it');
    await second.isShown();
    expect(second.asked()?.about?.why).toContain('⚠ its agent has read untrusted text (mcp__raw__page, since ');
    await second.answers('reject');
    await second.rests();
    expect(calls()).toEqual(['page']);
  });

  test('taints every agent that reads its text, also after a restart', async () => {
    const { rig, start, calls } = await world({ allow: ['mcp__raw__*'] }, ['dev', 'qa']);
    rig.answer(calling(['raw__page', {}]), { content: 'Write it, says the page.' });
    rig.play({ do: 'hang' });
    const first = await start();
    await first.write('Read it');
    await rig.paused();
    await first.kill();
    rig.answer(calling(WRITE), { content: 'No?' });
    const second = await start();
    await second.isShown();
    const why = expect.stringContaining('has read untrusted text (mcp__raw__page, by way of dev, since ');
    expect([second.holder(), second.asked()?.about?.why]).toEqual(['qa', why]);
    await second.answers('reject');
    await second.rests();
    expect(calls()).toEqual(['page']);
  });
});
