import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from '../kill/page.ts';
import { DONE, calling } from './models.ts';
import { outcome, quantile, rounded } from './scenario.ts';
import type { Outcome, Scenario, Size } from './scenario.ts';
import { CHANNEL, configOf, converse, fileIn, fixture, onStage, pageIn, question, rests, servers } from './stage.ts';
import type { Parts, Stage } from './stage.ts';
import { press, surfacesOf } from './surfaces.ts';

/** Rows 1 to 6: how tools are called, asked about, allowed for always and denied. */
export const CALLING: readonly Scenario[] = [
  { id: 1, name: 'read, search', run: reading },
  { id: 2, name: 'write → Once', run: once },
  { id: 3, name: 'write → Always "exactly this path" → again → other path', run: always },
  { id: 4, name: 'write → "No because use b.txt"', run: refused },
  { id: 5, name: 'delete_entities', run: deleting },
  { id: 6, name: 'get-env', run: hidden },
];

/** The number of questions asked so far. A question that continues after a restart counts once. */
export function cards(stage: Pick<Stage, 'facts'>): number {
  const ids = stage.facts().flatMap((fact) => (fact.type === 'paused' ? (fact.approval?.id ?? []) : []));
  return new Set(ids).size;
}

const READ = 'filesystem__read_text_file';
const WRITE = 'filesystem__write_file';

const at = ({ folder }: Parts, name: string): string => join(folder, name);
const writing = (parts: Parts, name: string, content: string) => calling(WRITE, { path: at(parts, name), content });

/** The servers, each with a recorder of the times of its answers. */
function stamped(parts: Parts, file: string): Readonly<Record<string, object>> {
  const all = Object.entries(servers(parts)) as [string, { command: string; args: readonly string[] }][];
  return Object.fromEntries(
    all.map(([id, { command, args, ...rest }]) => [
      id,
      { ...rest, command: process.execPath, args: [fixture('stamped.ts'), file, command, ...args] },
    ]),
  );
}

async function reading(size: Size): Promise<Outcome> {
  const rounds = size !== 'short' ? 40 : 6;
  const stamps = (stage: Stage) => join(stage.place.dir, 'stamps');
  const config = (parts: Parts) => configOf(parts, { mcp: stamped(parts, join(parts.folder, '..', 'stamps')) });
  return await onStage({ config }, async (stage) => {
    const { models, parts } = stage;
    const bot = await stage.start();
    const page = await pageIn(bot);
    const calls = Array.from({ length: rounds }, (_, index) =>
      index % 2 === 0
        ? calling(READ, { path: at(parts, ['a.txt', 'b.txt', 'c.txt'][index % 3] ?? 'a.txt') })
        : calling('memory__search_nodes', { query: `word ${index}` }),
    );
    models.play('dev', calls);
    await converse(page, 'Read, and search.');
    const answered = readFileSync(stamps(stage), 'utf8').trim().split('\n').map(Number);
    // Measures from the server's answer until the model is asked again: the result is stored by then.
    const oursMs = models.requests
      .filter(({ results }) => results.length > 0)
      .map(({ at: heardAt }) => {
        const ready = performance.timeOrigin + heardAt;
        return ready - Math.max(...answered.filter((sent) => sent <= ready));
      });
    const rows = stage.rows();
    const readyMs = rows.flatMap(({ endedAt }) => {
      const sent = answered.findLast((each) => endedAt !== null && each <= endedAt + 1);
      return endedAt === null || sent === undefined ? [] : [Math.max(0, endedAt - sent)];
    });
    const measured = {
      calls: rounds,
      rows: rows.length,
      complete: rows.filter(({ status, decision }) => status === 'complete' && decision === 'rule').length,
      cards: cards(stage),
      readyP50Ms: rounded(quantile(readyMs)),
      oursP50Ms: rounded(quantile(oursMs)),
      oursP95Ms: rounded(quantile(oursMs, 0.95)),
    };
    return outcome(measured, { rows: rounds, complete: rounds, cards: 0, oursP50Ms: { below: 15 } });
  });
}

/** Returns a text longer than a Discord message, and than people once saw of an input. */
function longText(name: string): string {
  return Array.from({ length: 90 }, (_, line) => `${name} line ${line + 1}: one agent at a time has the floor`).join(
    '\n',
  );
}

async function once(): Promise<Outcome> {
  return await onStage({ platforms: true, config: (parts) => configOf(parts) }, async (stage) => {
    const { models, parts } = stage;
    const bot = await stage.start();
    const found: Record<string, unknown>[] = [];
    for (const surface of await surfacesOf(stage, bot)) {
      const file = `${surface.name}.txt`;
      const content = longText(surface.name);
      models.play('dev', [writing(parts, file, content)]);
      const before = cards(stage);
      const epoch = surface.page.view?.epoch ?? 0;
      await surface.say('Write it down, please.');
      await question(surface.page, `a question on ${surface.name}`);
      const shown = surface.shown();
      await press(surface, 'once');
      await rests(surface.page, epoch);
      const row = stage.rows().find(({ channel }) => channel === surface.channel);
      found.push({
        cards: cards(stage) - before,
        whole: [at(parts, file), ...content.split('\n')].every((line) => shown.includes(line)),
        written: fileIn(parts, file) === content,
        decision: row?.decision,
        by: row?.decidedBy === surface.ann,
      });
    }
    const every = (key: string, value: unknown) => found.filter((each) => each[key] === value).length;
    const measured = {
      platforms: found.length,
      oneCard: every('cards', 1),
      wholeText: every('whole', true),
      written: every('written', true),
      decisionOnce: every('decision', 'once'),
      byAnn: every('by', true),
    };
    return outcome(measured, { oneCard: 3, wholeText: 3, written: 3, decisionOnce: 3, byAnn: 3 });
  });
}

/** Allows the request with an always rule that fits. Returns the answer. */
async function allowAlways(page: Page, fits: (rule: string) => boolean): Promise<string> {
  const number = await question(page);
  const offers = page.view?.holder?.approval?.always ?? [];
  const index = offers.findIndex(({ rule }) => fits(rule));
  const { text } = await page.command(CHANNEL, `/allow ${number} always ${index + 1}`);
  return text;
}

async function always(): Promise<Outcome> {
  return await onStage({ config: (parts) => configOf(parts) }, async (stage) => {
    const { models, parts } = stage;
    const page = await pageIn(await stage.start());
    let seen = 0;
    const asked = (): number => {
      const before = seen;
      seen = cards(stage);
      return seen - before;
    };
    const write = async (name: string, content: string, answer: () => Promise<unknown>): Promise<number> => {
      models.play('dev', [writing(parts, name, content)]);
      const epoch = page.view?.epoch ?? 0;
      await page.say(CHANNEL, `Write ${name}.`);
      await page.until(
        () =>
          page.view?.holder?.approval?.shown === true ||
          (page.view?.condition === 'resting' && page.view.epoch > epoch),
        'a question or the end',
      );
      if (page.view?.holder?.approval) await answer();
      await rests(page, epoch);
      return asked();
    };
    const no = async () => await page.command(CHANNEL, `/reject ${await question(page)}`);
    const first = await write('a.txt', 'first', () =>
      allowAlways(page, (rule) => rule.includes('path=') && !rule.includes('content=')),
    );
    const again = await write('a.txt', 'second', no);
    const other = await write('d.txt', 'third', no);
    const { text: listed } = await page.command(CHANNEL, '/run approvals');
    await page.command(CHANNEL, '/run revoke dev 1');
    const revoked = await write('a.txt', 'fourth', no);
    const measured = {
      cards: [first, again, other].join(', '),
      written: fileIn(parts, 'a.txt'),
      otherWritten: fileIn(parts, 'd.txt') !== null,
      listed: listed.includes(`mcp__filesystem__write_file(path=${at(parts, 'a.txt')})`),
      cardsRevoked: revoked,
    };
    return outcome(measured, {
      cards: '1, 0, 1',
      written: 'second',
      otherWritten: false,
      listed: true,
      cardsRevoked: 1,
    });
  });
}

async function refused(): Promise<Outcome> {
  return await onStage({ config: (parts) => configOf(parts) }, async (stage) => {
    const { models, parts } = stage;
    const page = await pageIn(await stage.start());
    models.play('dev', [writing(parts, 'new.txt', 'x'), DONE]);
    const epoch = page.view?.epoch ?? 0;
    await page.say(CHANNEL, 'Write it down, please.');
    await page.command(CHANNEL, `/reject ${await question(page)} use b.txt`);
    await rests(page, epoch);
    const next = models.requests.at(-1);
    const [row] = stage.rows();
    const measured = {
      requests: models.requests.length,
      modelHasTheWords: next?.results.some((text) => text.includes('use b.txt')) === true,
      file: existsSync(at(parts, 'new.txt')),
      decision: row?.decision,
      reason: row?.reason,
    };
    return outcome(measured, {
      requests: 2,
      modelHasTheWords: true,
      file: false,
      decision: 'denied-person',
      reason: 'use b.txt',
    });
  });
}

async function deleting(): Promise<Outcome> {
  return await onStage({ platforms: true, config: (parts) => configOf(parts) }, async (stage) => {
    const { models } = stage;
    const bot = await stage.start();
    let offered = 0;
    const times = 2;
    for (const surface of await surfacesOf(stage, bot)) {
      for (let time = 0; time < times; time += 1) {
        models.play('dev', [calling('memory__delete_entities', { entityNames: ['nobody'] })]);
        const epoch = surface.page.view?.epoch ?? 0;
        await surface.say('Forget nobody, please.');
        await question(surface.page, `a question on ${surface.name}`);
        if (surface.page.view?.holder?.approval?.always !== undefined || surface.hasButton('always')) offered += 1;
        await press(surface, 'once');
        await rests(surface.page, epoch);
      }
    }
    const deleted = stage.rows().filter(({ decision, status }) => decision === 'once' && status === 'complete');
    const measured = { calls: 3 * times, cards: cards(stage), deleted: deleted.length, alwaysOffered: offered };
    return outcome(measured, { cards: 3 * times, deleted: 3 * times, alwaysOffered: 0 });
  });
}

async function hidden(): Promise<Outcome> {
  return await onStage({ config: (parts) => configOf(parts) }, async (stage) => {
    const { models, parts } = stage;
    const page = await pageIn(await stage.start());
    models.play('dev', [calling('everything__get-env', {}), calling(READ, { path: at(parts, 'a.txt') }), DONE]);
    await converse(page, 'What is in your environment?');
    const offered = models.requests.flatMap(({ tools }) => tools);
    const [refusal = ''] = models.requests[1]?.results ?? [];
    const rows = stage.rows();
    const measured = {
      tools: models.requests[0]?.tools.length,
      offered: offered.includes('everything__get-env'),
      modelIsTold: refusal.startsWith('AGENT_TOOL_NOT_ALLOWED'),
      words: refusal.slice(0, 200),
      rowDecision: rows.find(({ tool }) => tool === 'mcp__everything__get-env')?.decision,
      wentOn: rows.some(({ tool, status }) => tool === 'mcp__filesystem__read_text_file' && status === 'complete'),
    };
    return outcome(measured, { offered: false, modelIsTold: true, rowDecision: 'denied-rule', wentOn: true });
  });
}
