import { describe, expect, test } from 'vitest';
import type { AgentBackend, Report } from '../../src/agents/backends/backend.ts';
import type { GatedCall } from '../../src/agents/tools/tool-gate.ts';
import type { Puppet } from '../agents/bench.ts';
import { CHANNEL, puppetry } from '../agents/bench.ts';
import { createTime } from '../agents/time.ts';
import { announcementText } from '../../src/turns/text/announcement-values.ts';
import { completeTexts } from '../../src/config/announcements.ts';
import { load } from '../config/world.ts';
import { folder, open, written } from '../engine/sqlite/fixture.ts';
import { startApp } from './start-app.ts';

const ADA = { id: 'ada', name: 'Ada', roles: [] };
const WRITTEN = {
  agents: [{ id: 'dev', backend: { kind: 'scripted', script: 'dev' } }],
  channels: [{ id: CHANNEL, agents: ['dev'] }],
  tools: { allow: ['Bash(npm test)'], default: 'ask' },
};
const CONFIG = load(WRITTEN);
const SECRET = 'xoxb-123456789012-abcdefghijkl';
const never = new AbortController().signal;
const DONE = { status: 'complete', output: 'ok', code: null, durationMs: 1 } as const;

/** Starts the whole program on the database at `path`, with dev as a puppet. */
async function program(path = ':memory:', settable: AgentBackend['settable'] = ['model', 'steps', 'tools']) {
  const { backend, sessions, failures } = puppetry({ ...(settable && { settable }) });
  const time = createTime();
  /** The seats whose next session begins without memory. */
  const forgotten: string[] = [];
  const forget: AgentBackend['forget'] = ({ channel, model }) => void forgotten.push(`${channel} ${model ?? ''}`);
  const store = open(path, { clock: time.clock, words: wordsOf });
  const { app, intake, queries, broken } = await startApp({
    config: CONFIG,
    store,
    time,
    adapter: { name: 'console' },
    backendFor: () => ({ ...backend, forget }),
  });
  await time.advance(1_000);
  const type = async (line: string) => {
    const answer = await intake().command(CHANNEL, ADA, line);
    await time.advance(1_000);
    return answer.text;
  };
  const lines = () =>
    queries()
      .lines(CHANNEL, 20)
      .map(({ author, text }) => `${author.id}: ${text}`);
  const told = () =>
    store.floors
      .journal(CHANNEL, 1_000)
      .flatMap(({ fact }) => (fact.type === 'announced' ? [wordsOf(fact.announcement)] : []));
  /** The session of the newest background run. */
  const worker = (): Puppet => {
    const found = sessions.findLast(({ turn }) => turn?.channel !== CHANNEL && turn !== null);
    if (found === undefined) throw new Error('nobody has a background run');
    return found;
  };
  return { app, time, store, sessions, forgotten, failures, intake, queries, broken, type, lines, told, worker };
}

type Program = Awaited<ReturnType<typeof program>>;

/** Waits for a condition, at most 10,000 rounds of the event loop: a database on disk answers later. */
async function until(is: () => boolean): Promise<void> {
  for (let look = 0; look < 10_000 && !is(); look += 1) await new Promise((resolve) => void setImmediate(resolve));
}

/** Makes the session of a background run fail, and waits until the run has the status "error". */
async function failsNow(app: Program['app'], worker: Puppet): Promise<void> {
  worker.ends(new Error('it fell over'));
  await until(() => app.runs.store.state(`${CHANNEL} dev+`)?.status === 'error');
}

type Told = Readonly<Record<'kind', string> & Partial<Record<'what' | 'title' | 'why', string>>>;

function wordsOf({ kind, what, title, why }: Told): string {
  return [kind, what ?? title ?? why].filter(Boolean).join(' ');
}

function call(command: string): GatedCall {
  const plain = { tool: 'Bash', definition: null, repeatable: false, caution: null };
  return { ...plain, id: command, input: { command }, detail: command };
}

/** The call of an agent that runs its calls itself. */
function own(command: string): GatedCall {
  return { ...call(command), accounts: [{ name: 'Bash', kind: 'execute', input: { command }, locations: [] }] };
}

describe('/run start', () => {
  test('starts background work of an agent without the floor and posts its report at the end', async () => {
    const { type, worker, time, lines, told, app, queries, broken } = await program();
    expect(await type('/run start dev look for dead links')).toContain('dev starts');
    expect(worker().turn?.text).toContain('look for dead links');
    expect(queries().view(CHANNEL)?.holder).toBeNull();
    expect(await type('/run status')).toContain('dev’s background run: starting');
    worker().report?.text('Two links are dead.');
    await time.advance(50_000);
    expect(lines()).toEqual([]);
    worker().ends({ how: 'completed' });
    await time.advance(1_000);
    expect(lines()).toEqual(['dev: Two links are dead.']);
    expect(told()).toEqual(['aside starts: look for dead links', 'aside completed after 1 step']);
    await app.stop();
    expect(broken).toEqual([]);
  });

  test('tells the agent the name of the person, not only the id', async () => {
    const { type, worker, app } = await program();
    await type('/run start dev look for dead links');
    expect(worker().turn?.text).toContain(`[from ${ADA.name} (${ADA.id})`);
    await app.stop();
  });

  test('lets the agent hold the floor meanwhile, and reports after that turn', async () => {
    const { type, worker, time, lines, sessions, intake, app } = await program();
    await type('/run start dev look for dead links');
    await intake().message(written('m1', 'hello', CHANNEL));
    await time.advance(1_000);
    const speaker = sessions.find(({ turn }) => turn?.channel === CHANNEL);
    worker().report?.text('Two links are dead.');
    worker().ends({ how: 'completed' });
    await time.advance(1_000);
    expect(lines()).toEqual(['u1: hello']);
    speaker?.report?.text('Hello to you.');
    speaker?.ends({ how: 'completed' });
    await time.advance(1_000);
    expect(lines().slice(1)).toEqual(['dev: Hello to you.', 'dev: Two links are dead.']);
    await app.stop();
  });

  test('needs an operator and a seated agent, and allows one background run per agent', async () => {
    const { intake, type, app } = await program();
    const bob = { id: 'bob', name: 'Bob', roles: [] };
    expect((await intake().command(CHANNEL, bob, '/run start dev x')).text).toContain('Only operators');
    expect(await type('/run start dev')).toContain('what');
    await type('/run start dev one');
    expect(await type('/run start dev two')).toContain('AGENT_ALREADY_RUNNING');
    await type('/run abort dev');
    await type('/agent disable dev');
    expect(await type('/run start dev three')).toContain('is disabled');
    await app.stop();
  });
});

describe('a background run that a person ends', () => {
  test('is the one that `dev+` names, while a turn of dev has an open run too', async () => {
    const { type, sessions, intake, time, app } = await program();
    const status = (key: string) => app.runs.store.state(`${CHANNEL} ${key}`)?.status;
    await type('/run start dev look for dead links');
    await intake().message(written('m1', 'hello', CHANNEL));
    await time.advance(1_000);
    const speaker = sessions.find(({ turn }) => turn?.channel === CHANNEL);
    await speaker?.report?.gate?.step({ text: '', checkpoint: null });
    await until(() => status('dev') === 'running');
    expect(await type('/run abort dev+')).toBe('Aborted.');
    expect([status('dev'), status('dev+')]).toEqual(['running', 'idle']);
    await app.stop();
  });

  test('reports the text written so far, once, after /run complete', async () => {
    const { type, worker, time, lines, told, app } = await program();
    await type('/run start dev look for dead links');
    const first = worker();
    await first.report?.gate?.step({ text: '', checkpoint: null });
    first.report?.text('Two links are dead.\n\n');
    await time.advance(30_000);
    first.report?.text('A third may');
    await time.advance(100);
    expect(await type('/run complete dev+')).toBe('The run is completed with the result so far.');
    first.report?.text(' be.');
    first.ends({ how: 'completed' });
    await time.advance(1_000);
    expect(lines()).toEqual([expect.stringMatching(/^dev: Two links are dead\.\s+A third may$/)]);
    expect(told().at(-1)).toBe('aside completed after 1 step');
    expect(await type('/run complete dev+')).toContain('AGENT_NO_AVAILABLE_TASK');
    await app.stop();
  });

  test('says that there is no report when the agent had written nothing', async () => {
    const { type, worker, lines, app } = await program();
    await type('/run start dev look for dead links');
    await worker().report?.gate?.step({ text: '', checkpoint: null });
    expect(await type('/run complete dev+')).toBe('The run is completed without a report.');
    expect(lines()).toEqual([]);
    await app.stop();
  });

  test('quotes its unfinished report, which is lost, after an abort', async () => {
    const { type, worker, lines, told, app } = await program();
    await type('/run start dev look for dead links');
    worker().report?.text('Two links are dead.');
    const lost = 'its unfinished report is lost (19 characters): “Two links are dead.”';
    expect(await type('/run abort dev+')).toBe(`Aborted; ${lost}.`);
    expect([lines(), told().slice(1)]).toEqual([[], ['aside was aborted: aborted by Ada', `aside ${lost}`]]);
    await app.stop();
  });

  test('quotes its lost report however the run is cut short, and announces no loss when it wrote nothing', async () => {
    const unseated = load({ ...WRITTEN, channels: [{ id: CHANNEL, agents: [] }] });
    const ways: Readonly<Record<string, (program: Program) => Promise<unknown>>> = {
      '/stop': ({ type }) => type('/stop'),
      '/agent disable dev': ({ type }) => type('/agent disable dev'),
      '/floor remove dev': ({ type }) => type('/floor remove dev'),
      '/run abort dev+': ({ type }) => type('/run abort dev+'),
      'no seat by the configuration': ({ app }) => app.reload(unseated),
      'its session fails': async ({ worker }) => worker().ends(new Error('it fell over')),
      'its agent is silent': ({ time }) => time.advance(60_000),
      "nobody's answer": async ({ worker, type, time }) => {
        void worker().report?.gate?.ask(call('npm publish'), never);
        await time.advance(600_000);
        await type('/run status');
      },
    };
    for (const [way, end] of Object.entries(ways)) {
      for (const text of ['Two links are dead.', '']) {
        const started = await program();
        const { type, worker, time, lines, told, app } = started;
        await type('/run start dev look for dead links');
        worker().report?.text(text);
        await end(started);
        await time.advance(1_000);
        const lost = told().filter((each) => each.includes('is lost'));
        const wanted = expect.stringMatching(
          /^aside its unfinished report is lost \(\d+ characters\): “Two links are dead\./,
        );
        expect([way, lines(), lost]).toEqual([way, [], text === '' ? [] : [wanted]]);
        await app.stop();
      }
    }
  });

  test('shows no secret in its last report', async () => {
    const { type, worker, time, store, lines, app } = await program();
    await type('/run start dev look');
    worker().report?.text(`The token is ${SECRET}.`);
    worker().ends({ how: 'completed' });
    await time.advance(1_000);
    expect(lines()).toEqual(['dev: The token is [secret].']);
    expect(JSON.stringify(store.floors.journal(CHANNEL, 100))).not.toContain(SECRET);
    await app.stop();
  });
});

const TOLD: Readonly<Record<string, string>> = {
  '/stop': 'stopped',
  '/agent disable dev': 'aside was stopped: its agent was disabled',
  '/floor remove dev': 'aside was stopped: its agent was removed from the channel',
};

describe('the tool calls of a background run', () => {
  test('follow the same rules: allowed calls run, others ask in the channel', async () => {
    const { type, worker, time, store, told, app } = await program();
    await type('/run start dev fix the build');
    const gate = worker().report?.gate;
    expect(await gate?.ask(call('npm test'), never)).toEqual({ verdict: 'go' });
    await gate?.settled(call('npm test'), DONE);
    const asked = gate?.ask(call('npm publish'), never);
    await time.advance(1_000);
    expect([told().at(-1), store.floors.state(CHANNEL)?.turn]).toEqual(['approval Bash', null]);
    await type('/allow 1');
    expect(await asked).toEqual({ verdict: 'go' });
    await gate?.settled(call('npm publish'), DONE);
    expect(await type('/run log dev+')).toContain('allowed once by Ada');
    await app.stop();
  });

  test("share always-allow rules with the agent's turns, until a rule is revoked", async () => {
    const { type, worker, intake, sessions, time, app } = await program();
    const outcome = async (gate: Report['gate'] | undefined, command: string) => {
      let verdict = 'asked';
      void gate?.ask(call(command), never).then((given) => void (verdict = given.verdict));
      await time.advance(1_000);
      if (verdict === 'go') await gate?.settled(call(command), DONE);
      return verdict;
    };
    await intake().message({ ...written('m1', 'hello', CHANNEL), author: ADA });
    await time.advance(1_000);
    const turn = sessions.find((session) => session.turn?.channel === CHANNEL)?.report?.gate;
    expect(await outcome(turn, 'eslint')).toBe('asked');
    await type('/allow 1 always');
    await turn?.settled(call('eslint'), DONE);
    await type('/run start dev fix the build');
    const beside = worker().report?.gate;
    expect(await outcome(beside, 'eslint')).toBe('go');
    expect(await outcome(beside, 'tsc')).toBe('asked');
    await type('/allow 2 always');
    await beside?.settled(call('tsc'), DONE);
    expect(await outcome(turn, 'tsc')).toBe('go');
    const listed = (await type('/run approvals')).split('\n');
    expect(listed).toEqual([
      expect.stringMatching(/^dev 1\. execute\(eslint\).* · \/run revoke dev 1$/),
      expect.stringMatching(/^dev\+ 1\. execute\(tsc\).* · \/run revoke dev\+ 1$/),
    ]);
    expect(await type('/run revoke dev 1')).toContain('Revoked: execute(eslint)');
    expect(await outcome(beside, 'eslint')).toBe('asked');
    await app.stop();
  });

  test('T67 leave no open request after /run pause and /run resume', async () => {
    const { type, worker, time, store, app } = await program();
    await type('/run start dev fix the build');
    const gate = worker().report?.gate;
    await gate?.step({ text: '', checkpoint: null });
    await type('/run pause dev+');
    void gate?.ask(call('npm publish'), never);
    await time.advance(1_000);
    await type('/run resume dev+');
    const said = store.floors.journal(CHANNEL, 1_000).flatMap(({ fact }) => {
      if (fact.type !== 'announced' || fact.announcement.kind === 'aside') return [];
      return [announcementText(fact.announcement, completeTexts({}), String, fact.repeat)?.split('\n')[0]];
    });
    expect(said).toEqual([
      expect.stringContaining('(1)'),
      expect.stringMatching(/^▶️ Ada continued dev’s run/),
      expect.stringContaining('wants to run'),
    ]);
    expect(store.floors.state(CHANNEL)?.asides?.[0]?.question?.question).toBe(2);
    await app.stop();
  });

  test('T88 are described in the channel after their request is decided', async () => {
    const { type, worker, time, store, app } = await program();
    await type('/run start dev fix the build');
    const gate = worker().report?.gate;
    const long = `echo ${'x'.repeat(90)} ${SECRET}`;
    void gate?.ask({ ...call('npm publish'), title: 'Run a command' }, never);
    await time.advance(1_000);
    await type('/reject 1');
    const asked = gate?.ask({ ...call(long), title: 'Run a command' }, never);
    await time.advance(1_000);
    await type('/allow 2');
    await asked;
    await gate?.settled(call(long), DONE);
    await time.advance(1_000);
    const titles = store.floors.journal(CHANNEL, 1_000).flatMap(({ fact }) => {
      const told = fact.type === 'announced' ? fact.announcement : null;
      return told?.kind === 'approval' || told?.kind === 'answered' ? [`${told.kind} ${told.title}`] : [];
    });
    const cut = expect.stringMatching(/^answered echo x{90} \[se.*…$/);
    expect(titles).toEqual(['approval Run a command', 'answered npm publish', 'approval Run a command', cut, cut]);
    expect(titles.join()).not.toContain('xoxb');
    await app.stop();
  });

  test('wait while an operator has paused the run', async () => {
    const { type, worker, time, app } = await program();
    await type('/run start dev fix the build');
    const gate = worker().report?.gate;
    await gate?.step({ text: '', checkpoint: null });
    expect(await type('/run pause dev')).toContain('pauses');
    let verdict: unknown = 'waiting';
    void gate?.ask(call('npm test'), never).then((given) => void (verdict = given));
    await time.advance(5_000);
    expect(verdict).toBe('waiting');
    expect(await type('/run resume dev')).toContain('The run continues');
    expect(verdict).toEqual({ verdict: 'go' });
    await app.stop();
  });

  test.each(['/stop', '/agent disable dev', '/floor remove dev'])(
    'do not run after %s stopped the run',
    async (line) => {
      const { type, worker, time, told, app } = await program();
      await type('/run start dev fix the build');
      const gate = worker().report?.gate;
      const asked = gate?.ask(call('npm publish'), never);
      await time.advance(1_000);
      await type(line);
      expect(await asked).toMatchObject({ verdict: 'refused', code: 'CANCELLED' });
      expect(await gate?.ask(call('npm test'), never)).toMatchObject({ verdict: 'refused' });
      expect([worker().calls.at(-1), told().at(-1)]).toEqual(['close', TOLD[line]]);
      expect(await type('/run status')).toContain('dev’s background run: idle');
      await app.stop();
    },
  );
});

const SILENT = 'aside failed: timed out without a sign of work. /run retry dev+ or /run abort dev+';

describe('a background run whose agent is silent', () => {
  test('fails after the timeout of a turn, counted from the last sign of work', async () => {
    const { type, worker, time, told, lines, app } = await program();
    await type('/run start dev look');
    worker().report?.text('Two');
    await time.advance(59_000);
    worker().report?.text(' links');
    await time.advance(59_999);
    expect(told()).toEqual(['aside starts: look']);
    await time.advance(1);
    expect(told().slice(1)).toEqual([SILENT, 'aside its unfinished report is lost (10 characters): “Two links”']);
    expect(worker().calls.at(-1)).toBe('close');
    const silent = worker();
    expect(await type('/run retry dev+')).toContain('retried');
    expect(worker()).not.toBe(silent);
    worker().report?.text('It is fine.');
    worker().ends({ how: 'completed' });
    await time.advance(1_000);
    expect(lines()).toEqual(['dev: It is fine.']);
    await app.stop();
  });

  test('fails when its agent never reports anything', async () => {
    const { type, time, told, app } = await program();
    await type('/run start dev look');
    await time.advance(60_000);
    expect(told().at(-1)).toBe(SILENT);
    expect(await type('/run status')).toContain('dev’s background run: error');
    await app.stop();
  });

  test("does not time out while a tool runs, within the tool's own time limit if known", async () => {
    const { type, worker, time, told, app } = await program();
    await type('/run start dev look');
    worker().report?.work(1);
    await time.advance(600_000);
    expect(told()).toHaveLength(1);
    worker().report?.work(1, undefined, 90_000);
    await time.advance(90_000);
    expect(told().at(-1)).toBe(SILENT);
    await app.stop();
  });

  test('does not time out while a request is open, and has its full time afterwards', async () => {
    const { type, worker, time, told, app } = await program();
    await type('/run start dev fix the build');
    const asked = worker().report?.gate?.ask(call('npm publish'), never);
    await time.advance(300_000);
    expect(told().at(-1)).toBe('approval Bash');
    await type('/allow 1');
    await asked;
    await time.advance(58_000);
    expect(told()).not.toContain(SILENT);
    await time.advance(2_000);
    expect(told().at(-1)).toBe(SILENT);
    await app.stop();
  });
});

describe('a background run whose agent misses its heartbeats', () => {
  test('fails, as a turn does', async () => {
    const { type, worker, time, told, app } = await program();
    await type('/run start dev look');
    const lost = worker();
    lost.pings = 'silent';
    for (let beat = 0; beat < 5; beat += 1) {
      lost.report?.text('still here');
      await time.advance(15_000);
    }
    const failed = 'aside failed: no heartbeat for 45 s. /run retry dev+ or /run abort dev+';
    expect([told().at(-2), lost.calls.at(-1)]).toEqual([failed, 'close']);
    expect(await type('/run retry dev+')).toContain('retried');
    expect(worker()).not.toBe(lost);
    await app.stop();
  });

  test('stays paused until a person resumes it, and then fails', async () => {
    const { type, worker, time, told, app } = await program();
    await type('/run start dev look');
    const lost = worker();
    await lost.report?.gate?.step({ text: '', checkpoint: null });
    lost.report?.text('Two links are dead.');
    await type('/run pause dev+');
    lost.pings = 'silent';
    await time.advance(75_000);
    expect(lost.calls.at(-1)).toBe('close');
    expect(told().at(-1)).toContain('its unfinished report is lost');
    expect(await type('/run status')).toContain('dev’s background run: paused');
    expect(await type('/run resume dev+')).toContain('The run continues');
    expect(told().at(-1)).toBe('aside failed: no heartbeat for 45 s. /run retry dev+ or /run abort dev+');
    expect(await type('/run retry dev+')).toContain('retried');
    expect(worker()).not.toBe(lost);
    await app.stop();
  });

  test('fails even if the agent has no seat at the floor any more', async () => {
    const { type, sessions, worker, time, told, app } = await program();
    await type('/run start dev look');
    const lost = worker();
    for (let beat = 0; beat < 80; beat += 1) {
      lost.report?.text('still here');
      await time.advance(15_000);
    }
    expect(sessions.filter((each) => each !== lost).map(({ calls }) => calls.at(-1))).toEqual(['close']);
    lost.pings = 'silent';
    for (let beat = 0; beat < 5; beat += 1) {
      lost.report?.text('still here');
      await time.advance(15_000);
    }
    expect(told().at(-2)).toContain('no heartbeat for 45 s');
    await app.stop();
  });
});

describe('a background run whose agent is lost', () => {
  test('waits for people, and a retry continues it in another session', async () => {
    const { type, worker, time, told, lines, app } = await program();
    await type('/run start dev fix the build');
    const first = worker();
    await first.report?.gate?.step({ text: '', checkpoint: null });
    first.ends(new Error('it fell over'));
    await time.advance(1_000);
    expect(told().at(-1)).toBe('aside failed: it fell over. /run retry dev+ or /run abort dev+');
    expect(await type('/run retry dev+')).toContain('retried');
    expect(worker()).not.toBe(first);
    expect(worker().turn?.text).toContain('You started this before and were interrupted');
    worker().report?.text('It builds.');
    worker().ends({ how: 'completed' });
    await time.advance(1_000);
    expect(lines()).toEqual(['dev: It builds.']);
    await app.stop();
  });
});

describe('the session of a background run', () => {
  test('begins without the memory of the run before, and a retry keeps its memory', async () => {
    const { type, worker, time, forgotten, app } = await program();
    for (const model of ['', 'opus']) {
      await type(`/run start dev ${model === '' ? '' : `--model=${model} `}fix the build`);
      await worker().report?.gate?.step({ text: '', checkpoint: null });
      worker().ends(new Error('it fell over'));
      await time.advance(1_000);
      await type('/run retry dev+');
      worker().ends({ how: 'completed' });
      await time.advance(1_000);
    }
    expect(forgotten).toEqual([`${CHANNEL} + `, `${CHANNEL} + opus`]);
    await app.stop();
  });
});

describe('/run retry', () => {
  test('T61 puts its words into the next prompt of a background run, also after a restart', async () => {
    using place = folder();
    const path = place.file();
    const { type, worker, time, app } = await program(path);
    await type('/run start dev fix the build');
    await failsNow(app, worker());
    await time.advance(1_000);
    const before = worker();
    expect(await type('/run retry dev+ use the other  [file], please')).toBe('The run is retried.');
    await until(() => worker() !== before);
    const words = 'Your last run failed. Ada retries it with these words: "use the other  [file], please"';
    expect(worker().turn?.text).toContain(`fix the build\n\n${words}`);
    await worker().report?.gate?.step({ text: '', checkpoint: null });
    await app.stop();
    const next = await program(path);
    await until(() => next.sessions.some(({ turn }) => turn !== null && turn.channel !== CHANNEL));
    expect(next.worker().turn?.text).toMatch(
      /were interrupted[^]*Continue from there\.\)\n\nYour last run failed\. Ada/,
    );
    await next.app.stop();
  });

  test('is not told of after a restart when people only gave a reason for a denial', async () => {
    using place = folder();
    const path = place.file();
    const { type, worker, time, app } = await program(path);
    await type('/run start dev fix the build');
    await worker().report?.gate?.step({ text: '', checkpoint: null });
    const asked = worker().report?.gate?.ask(call('npm publish'), never);
    await time.advance(1_000);
    await type('/reject 1 use staging');
    expect(await asked).toMatchObject({ verdict: 'refused', code: 'DENIED' });
    await app.stop();
    const next = await program(path);
    await until(() => next.sessions.some(({ turn }) => turn !== null && turn.channel !== CHANNEL));
    expect(next.worker().turn?.text).toContain('were interrupted');
    expect(next.worker().turn?.text).not.toContain('Your last run failed');
    await next.app.stop();
  });

  test('T61 by its button retries only the failed run it was drawn for, as Discard does', async () => {
    const { type, worker, time, store, told, app, intake } = await program();
    const press = async (line: string) => (await intake().command(CHANNEL, ADA, line, `t${store.id}.1`)).text;
    await type('/run start dev fix the build');
    worker().ends(new Error('it fell over'));
    await time.advance(1_000);
    expect(await press('/run retry dev+')).toBe('The run is retried.');
    expect(await press('/run abort dev+ discarded')).toContain('That run is over');
    expect(await press('/run retry dev+')).toContain('AGENT_NOT_RUNNING');
    await time.advance(1_000);
    worker().ends(new Error('it fell over'));
    await time.advance(1_000);
    expect(await press('/run abort dev+ discarded')).toBe('Aborted.');
    await time.advance(1_000);
    expect(told().at(-1)).toContain('was aborted: discarded');
    await app.stop();
  });

  test("T61 puts its words into the prompt of the agent's next turn, granted at once or later", async () => {
    const { type, intake, sessions, time, app } = await program();
    const speaker = () => sessions.findLast(({ turn }) => turn?.channel === CHANNEL);
    for (const [index, line] of ['/run retry dev mind the cap', '/run retry dev "mind the cap"'].entries()) {
      await intake().message({ ...written(`m${index}`, 'go', CHANNEL), author: ADA });
      await time.advance(1_000);
      await speaker()?.report?.gate?.step({ text: '', checkpoint: null });
      speaker()?.report?.text('I begin.');
      speaker()?.ends(new Error('it fell over'));
      await time.advance(5_000);
      expect(await type(line)).toBe('dev gets the next turn. Your words are in its prompt.');
      await time.advance(1_000);
      expect(speaker()?.turn?.text).toContain('Ada retries it with these words: "mind the cap"');
      speaker()?.ends({ how: 'passed' });
      await time.advance(1_000);
    }
    await intake().message({ ...written('m9', 'and?', CHANNEL), author: ADA });
    await time.advance(1_000);
    expect(speaker()?.turn?.text).not.toContain('mind the cap');
    await app.stop();
  });
});

describe('/run start with options', () => {
  test('T61 sets the model, the step limit and the allowed tools of the run', async () => {
    const { type, worker, time, told, app } = await program();
    const line = '/run start dev --model small-1 --steps 2 --tools "Bash(npm test), Read" look for --dead links';
    expect(await type(line)).toContain('dev starts');
    expect(told()[0]).toBe('aside starts: look for --dead links');
    expect(worker().seat?.model).toBe('small-1');
    expect(worker().seat?.reaches?.('scratch', null)).toBe(false);
    const gate = worker().report?.gate;
    expect(await gate?.ask(call('npm test'), never)).toEqual({ verdict: 'go' });
    await gate?.settled(call('npm test'), DONE);
    expect(await gate?.ask(call('npm publish'), never)).toMatchObject({
      verdict: 'refused',
      words: expect.stringContaining('it is not among the tools of this run'),
    });
    void gate?.step({ text: '', checkpoint: null });
    await time.advance(1_000);
    expect(told().at(-1)).toContain('approval');
    expect(await type('/run status')).toContain('step 2 of 2');
    await app.stop();
  });

  test('T61 keeps the options after a retry and a restart', async () => {
    using place = folder();
    const path = place.file();
    const { type, worker, time, app } = await program(path);
    await type('/run start dev --model=small-1 --tools Read look');
    await failsNow(app, worker());
    await time.advance(1_000);
    const before = worker();
    await type('/run retry dev+');
    await until(() => worker() !== before);
    expect(worker().seat?.model).toBe('small-1');
    await app.stop();
    const next = await program(path);
    await until(() => next.sessions.some(({ turn }) => turn !== null && turn.channel !== CHANNEL));
    expect(next.worker().seat?.model).toBe('small-1');
    expect(await next.worker().report?.gate?.ask(call('npm test'), never)).toMatchObject({ verdict: 'refused' });
    await next.app.stop();
  });

  test.each([
    ['--model x', 'dev (puppet) cannot use another model for one run. Leave out --model, or set the model where'],
    ['--steps 5', 'dev (puppet) does not report its steps'],
    ['--tools Read', 'dev (puppet) does not promise to ask before it uses a tool'],
  ])('T61 refuses %s for an agent that cannot support it, and says what to do', async (option, words) => {
    const { type, told, app } = await program(':memory:', []);
    expect(await type(`/run start dev ${option} look`)).toContain(words);
    expect(told()).toEqual([]);
    await app.stop();
  });

  test.each([
    ['--steps 0', 'Expected a number from 1 to 200 after --steps, got "0".'],
    ['--modle x', 'There is no option "--modle". Did you mean "--model"?'],
    ['--model', 'Expected words after --model.'],
    ['--tools "Bash()"', 'There is nothing in the brackets'],
    ['--tools ","', 'That list has no tool.'],
  ])('T61 explains the error in %s', async (option, words) => {
    const { type, app } = await program();
    expect(await type(`/run start dev ${option}${option === '--model' ? '' : ' look'}`)).toContain(words);
    await app.stop();
  });
});

describe('a background run whose tool server is given up', () => {
  test('announces the lost server without secrets, and announces its return', async () => {
    const { type, worker, time, told, app } = await program();
    await type('/run start dev look');
    worker().seat?.tellTools?.('github', `refused ${SECRET}`);
    await time.advance(1_000);
    expect(told().at(-1)).toBe('toolsGone refused [secret]');
    worker().seat?.tellTools?.('github', null);
    await time.advance(1_000);
    expect(told().at(-1)).toBe('toolsBack');
    await app.stop();
  });
});

describe("a program that reads a run's events", () => {
  test.each(['dev', 'dev+'])('receives the calls and the text of a background run under the name %j', async (agent) => {
    const { app, type, worker, time } = await program();
    const told: string[] = [];
    const asked = { agent, channel: null, after: null, format: 'conch' } as const;
    const opened = app.runs.events(asked, ({ data }) => {
      if (String(Reflect.get(data, 'run')).includes('+#')) told.push(String(Reflect.get(data, 'type')));
    });
    expect(opened.ok).toBe(true);
    await type('/run start dev look');
    worker().report?.text('Two links');
    worker().ends({ how: 'completed' });
    await time.advance(1_000);
    const { task } = app.runs.store.state('console:demo dev+')?.run ?? {};
    expect(task).toBe('task #1 of dev+ in console:demo');
    expect([...new Set(told)]).toEqual([
      'agent:starting',
      'state:update',
      'stream:token',
      'agent:step',
      'agent:completed',
      'agent:cleanup',
    ]);
    await app.stop();
  });
});

describe('the run of a turn', () => {
  test.each([
    ['/run abort dev', 'So far so good. … (cut off)'],
    ['/run complete dev', 'So far so good.'],
  ])('keeps the displayed text when %s ends it', async (line, kept) => {
    const { type, intake, time, sessions, lines, app } = await program();
    await intake().message(written('m1', 'hello', CHANNEL));
    await time.advance(1_000);
    const speaker = sessions.find(({ turn }) => turn?.channel === CHANNEL);
    await speaker?.report?.gate?.step({ text: '', checkpoint: null });
    speaker?.report?.text('So far so good.');
    await type(line);
    expect(lines().slice(1)).toEqual([`dev: ${kept}`]);
    await app.stop();
  });
});

describe('the record of a run', () => {
  test('names who decided, also after a restart', async () => {
    using place = folder();
    const before = await program(place.file());
    await before.type('/run start dev fix the build');
    const gate = before.worker().report?.gate;
    const asked = gate?.ask(call('npm publish'), never);
    await until(() => before.told().at(-1) === 'approval Bash');
    await before.type('/reject 1');
    await asked;
    expect(await before.type('/run log dev+')).toContain('denied by Ada');
    await before.app.stop();
    const after = await program(place.file());
    const bob = { id: 'bob', name: 'Bob', roles: [] };
    const log = await after.intake().command(CHANNEL, bob, '/run log dev+');
    expect(log.text).toContain('denied by Ada');
    await after.app.stop();
  });
});

describe('a background run cut by the end of the program', () => {
  test('continues after the restart once its request is answered, and knows its calls and the decision', async () => {
    using place = folder();
    const before = await program(place.file());
    await before.type('/run start dev fix the build');
    const gate = before.worker().report?.gate;
    await gate?.ask(call('npm test'), never);
    void gate?.ask(own('npm publish'), never);
    await until(() => before.told().at(-1) === 'approval Bash');
    expect(before.told().at(-1)).toBe('approval Bash');
    // The store closes first, as in a crash: the program can store and announce nothing more.
    await before.store.close();
    const after = await program(place.file());
    await until(() => after.told().filter((each) => each === 'approval Bash').length === 2);
    expect(await after.type('/run status')).toContain('dev’s background run: paused');
    expect(await after.type('/allow 1')).toContain('Allowed');
    await until(() => after.sessions.some(({ turn }) => turn !== null && turn.channel !== CHANNEL));
    const text = after.worker().turn?.text ?? '';
    expect(text).toContain('fix the build');
    expect(text).toContain('outcome unknown');
    expect(text).toContain('Before you were restarted, you requested "Bash". It was allowed,');
    const next = after.worker().report?.gate;
    expect(await next?.ask(own('npm publish'), never)).toEqual({ verdict: 'go' });
    expect(await after.type('/run status')).toContain('dev’s background run: running');
    after.worker().report?.text('It builds.');
    after.worker().ends({ how: 'completed' });
    await until(() => after.lines().length > 0);
    expect(after.lines()).toEqual(['dev: It builds.']);
    await after.app.stop();
    expect(after.broken).toEqual([]);
  });

  test('posts its report after the restart', async () => {
    using place = folder();
    const before = await program(place.file());
    await before.type('/run start dev look');
    await before.intake().message(written('m1', 'hello', CHANNEL));
    await before.time.advance(1_000);
    before.worker().report?.text('Nothing found.');
    before.worker().ends({ how: 'completed' });
    await until(() => before.told().length > 1);
    expect(before.lines()).toEqual(['u1: hello']);
    await before.app.stop();
    const after = await program(place.file());
    await until(() => after.sessions.some(({ turn }) => turn !== null));
    const speaker = after.sessions.find(({ turn }) => turn?.channel === CHANNEL);
    speaker?.ends({ how: 'passed' });
    await until(() => after.lines().length > 1);
    expect(after.lines().slice(1)).toEqual(['dev: Nothing found.']);
    await after.app.stop();
  });
});
