import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { unlistedTool } from '../../../src/agents/mcp/mcp-tools.ts';
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { McpPool } from '../../../src/agents/mcp/mcp-pool.ts';
import type { McpConfig, SeatTools } from '../../../src/agents/mcp/mcp-pool.ts';
import type { ServerTool } from '../../../src/agents/mcp/mcp-tools.ts';
import { backgroundSessionIdOf } from '../../../src/turns/floor/seats.ts';
import { livingIn } from '../backends/acp/acp-rig.ts';
import { mcpPorts, numberIn, toolsServer } from './mcp-rig.ts';

const pools: McpPool[] = [];
afterEach(async () => {
  await Promise.all(pools.splice(0).map((pool) => pool.close()));
});

/** Creates a pool. A test can change its configuration in `now`. */
function pooled(config: McpConfig) {
  const now = { config };
  const rig = mcpPorts();
  const pool = new McpPool(() => now.config, rig.ports);
  pools.push(pool);
  const seat = (agent: string, channel = 'console:a') => pool.open({ agent, channel });
  return { pool, seat, now, ...rig };
}

/** The configuration of a server that starts only while a file exists. `found` creates the file, `lost` deletes it. */
function lacking() {
  const folder = mkdtempSync(join(tmpdir(), 'conch-mcp-'));
  const file = join(folder, 'there');
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return {
    config: { raw: toolsServer([`fails-without=${file}`]) },
    found: () => writeFileSync(file, ''),
    lost: () => rmSync(file),
  };
}

const always = () => true;
const offered = async (tools: SeatTools, reaches: Parameters<SeatTools['offer']>[0] = always) =>
  (await tools.offer(reaches)).tools.map(({ alias }) => alias);

const called = (tools: SeatTools, tool: ServerTool) =>
  tools.call(tool, { id: '1', input: {}, stopped: new AbortController().signal, progressed() {} });

const toolOf = async (tools: SeatTools, wanted: string): Promise<ServerTool> => {
  const found = (await tools.offer(always)).tools.find(({ alias }) => alias === wanted);
  if (found === undefined) throw new Error(`there is no ${wanted}`);
  return found;
};

const WITH_PID = ['tool=pid'];

/** Returns the process id of a server that has the tool `pid`. */
const pidOf = async (tools: SeatTools, server = 'raw'): Promise<number> =>
  numberIn((await called(tools, await toolOf(tools, `${server}__pid`))).text);
const gone = (pid: number) => vi.waitFor(() => expect(livingIn(pid)).toEqual([]), { timeout: 60_000 });

describe('MCP servers', () => {
  test('are one process for all channels of an agent, and another for each other agent', async () => {
    const { seat } = pooled({ raw: toolsServer(WITH_PID) });
    const [one, other, qa] = [seat('dev'), seat('dev', 'console:b'), seat('qa')];
    const pid = await pidOf(one);
    expect(await pidOf(other)).toBe(pid);
    expect(await pidOf(qa)).not.toBe(pid);
  });

  test('are one process for each seat when they are stateful', async () => {
    const { seat } = pooled({ raw: toolsServer(WITH_PID, { share: 'seat' }) });
    expect(await pidOf(seat('dev'))).not.toBe(await pidOf(seat('dev', 'console:b')));
  });

  test('end with their last seat', async () => {
    const { seat } = pooled({ raw: toolsServer(WITH_PID) });
    const [one, other] = [seat('dev'), seat('dev', 'console:b')];
    const pid = await pidOf(one);
    await one.close();
    expect(await pidOf(other)).toBe(pid);
    await other.close();
    await gone(pid);
  });

  test('run no call of a tool whose definition changed after it was shown', async () => {
    const { seat } = pooled({ raw: toolsServer() });
    const tools = seat('dev');
    const shown = await toolOf(tools, 'raw__echo');
    await called(tools, await toolOf(tools, 'raw__rug'));
    await vi.waitFor(async () => expect((await toolOf(tools, 'raw__echo')).digest).not.toBe(shown.digest));
    const why = 'The call was not run: its definition changed after it was shown.';
    expect(await called(tools, shown)).toMatchObject({ text: why, code: 'TOOL_FAILED' });
    expect(tools.changeOf(await toolOf(tools, 'raw__echo'))).not.toBeNull();
    expect(await called(tools, { ...shown, name: 'gone' })).toMatchObject({ code: 'TOOL_FAILED' });
  });

  test('without a tool that the rules can allow are not started', async () => {
    const { seat } = pooled({ raw: toolsServer(['fails']), other: toolsServer() });
    const { tools, notes } = await seat('dev').offer((server) => server === 'other');
    expect(tools).toHaveLength(4);
    expect(notes).toEqual([]);
  });

  test('with changed settings are restarted; removed servers end', async () => {
    const { seat, now } = pooled({ raw: toolsServer(WITH_PID), other: toolsServer(WITH_PID) });
    const tools = seat('dev');
    const [raw, other] = [await pidOf(tools), await pidOf(tools, 'other')];
    now.config = { raw: toolsServer([...WITH_PID, 'noise']) };
    expect(await offered(tools)).toContain('raw__echo');
    await Promise.all([gone(raw), gone(other)]);
    expect(await pidOf(tools)).not.toBe(raw);
  });

  test('that cannot start are reported to the model, and the others are offered', async () => {
    const { seat } = pooled({ broken: toolsServer(['fails']), raw: toolsServer([], { tools: ['echo'] }) });
    const { tools, notes } = await seat('dev').offer(always);
    expect(tools.map(({ alias }) => alias)).toEqual(['raw__echo']);
    expect(notes).toEqual(['The tools of broken are unavailable: exited with code 3: no such folder']);
  });

  test('that are down are retried when a session is opened', async () => {
    const { seat, time } = pooled({ raw: toolsServer(['fails']) });
    const tools = seat('dev');
    for (let n = 0; n < 5; n += 1) {
      await tools.offer(always);
      await time.advance(60_000);
    }
    expect((await tools.offer(always)).notes[0]).toContain('it is not tried again after 5 failures');
    seat('dev', 'console:b');
    expect((await tools.offer(always)).notes[0]).toContain('exited with code 3');
  });
});

describe('people', () => {
  const world = () => {
    const { config, ...disk } = lacking();
    const rig = pooled(config);
    const told: string[] = [];
    const seat = (channel: string, reaches = always) =>
      rig.pool.open({
        agent: 'dev',
        channel,
        reaches,
        tellTools: (server, why) => void told.push(`${channel} ${server} ${why ?? 'is back'}`),
      });
    const use = async (tools: SeatTools, times: number) => {
      for (let n = 0; n < times; n += 1) {
        await tools.offer(always);
        await rig.time.advance(60_000);
      }
    };
    return { ...rig, ...disk, told, seat, use };
  };
  const WHY = 'exited with code 3: no such folder';

  test('are told of a server that is given up, once in each channel that uses it, but not of the four failures before', async () => {
    const { told, seat, use } = world();
    const tools = seat('a');
    seat('b');
    seat('c', () => false);
    await use(tools, 4);
    expect(told).toEqual([]);
    await use(tools, 3);
    expect(told).toEqual([`a raw ${WHY}`, `b raw ${WHY}`]);
  });

  test('are told once in a channel where turns and background runs use the server', async () => {
    const { told, seat, use, found } = world();
    const tools = seat('a');
    seat(backgroundSessionIdOf('a'));
    await use(tools, 5);
    found();
    await tools.offer(always);
    await use(seat(backgroundSessionIdOf('a')), 2);
    expect(told).toEqual([`a raw ${WHY}`, 'a raw is back']);
  });

  test('are told when the server is back, and when it is given up again', async () => {
    const { told, seat, use, found, lost } = world();
    const tools = seat('a');
    await use(tools, 5);
    found();
    await tools.offer(always);
    expect(told).toHaveLength(1);
    const later = seat('a');
    await use(later, 2);
    expect(told).toEqual([`a raw ${WHY}`, 'a raw is back']);
    lost();
    await Promise.all([tools.close(), later.close()]);
    await use(seat('a'), 5);
    expect(told).toEqual([`a raw ${WHY}`, 'a raw is back', `a raw ${WHY}`]);
  });

  test('are told once of one outage even if several sessions begin during it', async () => {
    const { told, seat, use, found } = world();
    for (let n = 0; n < 3; n += 1) {
      const tools = seat('a');
      await use(tools, 6);
      await tools.close();
    }
    expect(told).toEqual([`a raw ${WHY}`]);
    found();
    await use(seat('a'), 1);
    expect(told.at(-1)).toBe('a raw is back');
  });
});

describe('the tools of an agent', () => {
  test('that rules always deny are not offered, but listed as withheld', async () => {
    const { seat } = pooled({ raw: toolsServer() });
    const found = await seat('dev').offer((_, tool) => tool !== 'write');
    expect(found.tools.map(({ name }) => name)).toEqual(['echo', 'grow', 'rug']);
    expect(found.withheld.map(({ name }) => name)).toEqual(['write']);
  });

  test('of a server that no rule allows are known by name, and the server is not started', async () => {
    const { seat, logged } = pooled({ raw: toolsServer(['fails']), other: toolsServer() });
    const found = await seat('dev').offer((server) => server === 'other');
    expect(found.unused).toEqual(['raw']);
    expect(unlistedTool(found.unused, 'raw__write')).toMatchObject({ server: 'raw', rule: 'mcp__raw__write' });
    expect(unlistedTool(found.unused, 'other__write')).toBe(null);
    expect(logged).toEqual([]);
  });

  test('are named after their server, even if it has the name of a floor tool', async () => {
    expect(await offered(pooled({ raw: toolsServer(['verb']) }).seat('dev'))).toContain('raw__say');
  });

  test('are at most 64', async () => {
    const { tools, notes } = await pooled({ raw: toolsServer(['small']) })
      .seat('dev')
      .offer(always);
    expect([tools.length, notes]).toEqual([64, ['140 more tools are not offered: there are too many.']]);
  });

  test.each([
    [24, false],
    [25, true],
  ])('are %i; the log warns of many tools: %j', async (count, isTold) => {
    const wanted = Array.from({ length: count }, (_, index) => `small-${index}`);
    const { seat, logged } = pooled({ raw: toolsServer(['small'], { tools: wanted }) });
    expect((await seat('dev').offer(always)).tools).toHaveLength(count);
    expect(logged.join().includes('an agent has many tools')).toBe(isTold);
  });

  test('have at most 64 KiB in all and 2,000 characters in each description, and the log warns', async () => {
    const { seat, logged } = pooled({ raw: toolsServer(['many']) });
    const { tools, notes } = await seat('dev').offer(always);
    expect(tools.length).toBeGreaterThan(25);
    const shown = tools.map(({ alias, description, schema }) => [alias, description, schema]);
    expect(Buffer.byteLength(JSON.stringify(shown))).toBeLessThan(65_536 + 2 * 64);
    expect(Math.max(...tools.map(({ description }) => description.length))).toBe(2_001);
    expect(notes).toEqual([`${204 - tools.length} more tools are not offered: there are too many.`]);
    expect(logged.join()).toContain('an agent has many tools');
  });

  test("come with their server's instructions only if its configuration sets `instructions`", async () => {
    const { seat } = pooled({ raw: toolsServer([], { instructions: true }), other: toolsServer() });
    expect((await seat('dev').offer(always)).instructions).toEqual([{ server: 'raw', text: 'Ask me anything.' }]);
  });
});
