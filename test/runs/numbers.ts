import Database from 'better-sqlite3';
import { join } from 'node:path';
import { readJournals } from '../../src/engine/sqlite/check.ts';
import { uniteRules, decideUse } from '../../src/rules/verdict.ts';
import { floorMachine } from '../../src/turns/floor-store.ts';
import { AT, bash, use } from '../rules/fixture.ts';
import { effectsServer, startRig } from './crashes.ts';
import { DONE, calling } from './models.ts';
import { quantile, rounded } from './scenario.ts';
import type { Size } from './scenario.ts';
import { FAULTY, CHANNEL, configOf, converse, onStage, pageIn, question, rests } from './stage.ts';
import type { Stage } from './stage.ts';

/** The costs of runs. Times are in milliseconds unless the name says otherwise. */
export type Numbers = {
  /** From the request of a call until people can answer its question on Discord. */
  readonly cardP50Ms: number;
  readonly cardP95Ms: number;
  /** From the approval until the call reaches its server. */
  readonly clickToDispatchP50Ms: number;
  readonly clickToDispatchP95Ms: number;
  /** The time of one verdict with a hundred rules. */
  readonly ruleMicros: number;
  /** Bytes that the journals of floor and run grow by for one call that a rule allows. */
  readonly bytesPerCall: number;
  /** The share of stored calls that only the agent reported, of all in this measurement. */
  readonly shareOfAgents: number;
};

/** Measures the costs. */
export async function measure(size: Size): Promise<Numbers> {
  const times = size !== 'short' ? 40 : 3;
  return { ...(await asked(times)), ruleMicros: ruleMicros(), bytesPerCall: await bytesPerCall(times) };
}

async function asked(times: number) {
  const rig = await startRig();
  const options = {
    platforms: true,
    config: (parts: Stage['parts']) =>
      configOf(parts, { mcp: { effect: effectsServer(parts, rig) }, tools: { ask: ['mcp__effect__write'] } }),
  };
  try {
    return await onStage(options, async (stage) => {
      const bot = await stage.start();
      const [, channel = ''] = stage.parts.channels;
      const page = await pageIn(bot, channel);
      const clickMs: number[] = [];
      stage.models.play(
        'dev',
        Array.from({ length: times }, (_, index) => calling('effect__write', { task: `task ${index}` })),
      );
      const epoch = page.view?.epoch ?? 0;
      stage.discord.write('ann', stage.discord.channel, 'Write it all down, please.');
      for (let time = 0; time < times; time += 1) {
        const number = await question(page);
        const from = performance.now();
        rig.hear = (when) => void (when === 'before' && clickMs.push(performance.now() - from));
        await page.command(channel, `/allow ${number}`);
        await page.until(() => page.view?.holder?.approval?.question !== number, 'the end of the question');
      }
      await rests(page, epoch);
      const rows = stage.rows();
      const shownAt = shownTimes(stage, channel);
      const cardMs = rows.flatMap(({ askedAt }, index) => {
        const shown = shownAt[index];
        return shown === undefined ? [] : [shown - askedAt];
      });
      return {
        cardP50Ms: rounded(quantile(cardMs)),
        cardP95Ms: rounded(quantile(cardMs, 0.95)),
        clickToDispatchP50Ms: rounded(quantile(clickMs)),
        clickToDispatchP95Ms: rounded(quantile(clickMs, 0.95)),
        shareOfAgents: rows.filter(({ source }) => source === 'agent').length / rows.length,
      };
    });
  } finally {
    await rig.close();
  }
}

/** The times when people could answer each question in the channel. */
function shownTimes({ place }: Stage, channel: string): readonly number[] {
  const journals = readJournals(join(place.dataDir, 'conch.db'), floorMachine);
  return (journals.get(channel) ?? []).flatMap(({ fact, at }) => (fact.type === 'questionShown' ? [at] : []));
}

const RULES = 100;
const CALLS = 100;

/** The median time of one verdict with a hundred rules. */
function ruleMicros(): number {
  const list = (from: number) => Array.from({ length: RULES / 4 }, (_, index) => from + index);
  const rules = uniteRules([
    {
      scope: 'bot',
      lists: {
        deny: list(0).map((each) => `Bash(tool-${each} --force *)`),
        ask: list(100).map((each) => `mcp__server-${each}__write_*`),
        allow: [
          ...list(200).map((each) => `Edit(src/part-${each}/**)`),
          ...list(300).map((each) => `WebFetch(domain:host-${each}.example.org)`),
        ],
        default: 'ask',
      },
    },
  ]);
  const calls = Array.from({ length: CALLS / 4 }, (_, each) => [
    bash(`tool-${each} --check && npm test -- part-${each}`),
    use('mcp__server-110__write_file', { path: `part-${each}`, text: 'x'.repeat(200) }),
    use('Edit', { file_path: `/work/src/part-${200 + each}/index.ts` }),
    use('WebFetch', { url: `https://host-${300 + each}.example.org/page` }),
  ]).flat();
  const memory = { at: AT, definition: null, remembered: [] };
  const micros = Array.from({ length: 60 }, () => {
    const from = performance.now();
    for (const call of calls) decideUse(call, rules, memory);
    return ((performance.now() - from) * 1_000) / calls.length;
  });
  return rounded(quantile(micros));
}

async function bytesPerCall(times: number): Promise<number> {
  const config = (parts: Stage['parts']) =>
    configOf(parts, {
      mcp: { raw: { command: process.execPath, args: [FAULTY], trusted: true } },
      tools: { allow: ['mcp__raw__echo'] },
    });
  return await onStage({ config }, async (stage) => {
    const page = await pageIn(await stage.start(), CHANNEL);
    const turn = async (calls: number): Promise<number> => {
      const texts = Array.from({ length: calls }, (_, index) => calling('raw__echo', { text: `call ${index}` }));
      stage.models.play('dev', [...texts, DONE]);
      const before = journalBytes(stage);
      await converse(page, 'Go on.');
      return journalBytes(stage) - before;
    };
    // Compares a turn with one call to a turn with many calls: the difference is the calls' alone.
    const one = await turn(1);
    return Math.round(((await turn(times + 1)) - one) / times);
  });
}

function journalBytes({ place }: Stage): number {
  const db = new Database(join(place.dataDir, 'conch.db'), { readonly: true });
  try {
    return db.prepare<[], number>('SELECT sum(length(facts) + length(hash)) FROM journal').pluck().get() ?? 0;
  } finally {
    db.close();
  }
}
