import { INTERRUPT_MODES } from '../../src/turns/floor/policies.ts';
import { PLAYERS } from './channel.ts';
import type { ArenaChannel } from './channel.ts';
import type { Asked, Mind, Reply } from './models.ts';

/** A game: its models' answers, the person's acts, and a check of what was said. */
export type Game = {
  readonly name: string;
  readonly turnConfig: object;
  /** Makes a new mind for each play. */
  readonly mind: () => Mind;
  readonly play: (channel: ArenaChannel) => Promise<boolean>;
  /** Returns the fault in what was said; `null`: none. */
  readonly fault: (channel: ArenaChannel, said: readonly Said[]) => string | null;
  /** The number of limits that must be announced. */
  readonly limits?: number;
  /** True to measure the share of each request that equals the request before. */
  readonly measured?: boolean;
};

export type Said = { readonly agent: string; readonly text: string };

const LAP = PLAYERS.length;
const ENDLESS = { rounds: 0, maxTurns: 400, defaultTimeoutSeconds: 120 };
const HOUR_MS = 3_600_000;

/** All games. The game with an interrupting person is there once for each mode. */
export const GAMES: readonly Game[] = [
  {
    name: 'counting to 50',
    turnConfig: ENDLESS,
    mind: () => counting(50),
    play: opened('Count to 50, one number each.'),
    fault: (_channel, said) => counted(said, 50),
  },
  {
    name: 'three each, with thanks',
    turnConfig: ENDLESS,
    mind: () => (asked) =>
      asked.before < 3 ? `Item ${asked.before + 1}. Thanks @${previous(asked.agent)}, nice work.` : 'PASS',
    play: opened('Three items each.'),
    fault: (_channel, said) => inLaps(said, 3),
  },
  {
    name: 'two laps in order',
    turnConfig: { ...ENDLESS, rounds: 2 },
    mind: () => (asked) => `My word number ${asked.before + 1}.`,
    play: opened('Two words each.'),
    fault: (_channel, said) => inLaps(said, 2),
  },
  {
    name: 'a delegated question',
    turnConfig: { ...ENDLESS, rounds: 1 },
    mind: () => delegating,
    play: opened('fig: find out what six times seven is. Only yuzu can multiply.'),
    fault: (_channel, said) => {
      const expected = ['fig: @yuzu, what is six times seven?', 'yuzu: It is 42.', 'fig: The answer is 42.'];
      return differs(
        said.slice(0, 3).map(({ agent, text }) => `${agent}: ${text}`),
        expected,
      );
    },
  },
  ...INTERRUPT_MODES.map(personInTheMiddle),
  {
    name: 'stop and go on',
    turnConfig: ENDLESS,
    mind: () => counting(30),
    async play(channel) {
      await channel.write('Count to 30, one number each.');
      if (!(await reaches(channel, 10))) return false;
      await channel.write('!stop');
      if (!(await rests(channel, 1))) return false;
      await channel.write('go on');
      return await rests(channel, 2);
    },
    fault: (_channel, said) => counted(said, 30),
  },
  {
    name: 'models that say SKIP',
    turnConfig: ENDLESS,
    mind: () => (asked) => SKIPS[PLAYERS.findIndex((id) => id === asked.agent)] ?? 'PASS',
    play: opened('Has anybody something to add?'),
    fault: (_channel, said) => (said.length === 0 ? null : `${said.length} passes were posted`),
  },
  {
    name: 'talk at length',
    turnConfig: { ...ENDLESS, maxTurns: 200 },
    mind: () => (asked) => `${asked.agent} on point ${asked.before + 1}: ${LONG}`,
    play: opened('Discuss the harbour at length.'),
    fault: (_channel, said) =>
      said.length === 200 ? inLaps(said.slice(0, 196), 28) : `${said.length} turns in place of 200`,
    limits: 1,
    measured: true,
  },
  {
    name: 'a service that fails with 429 and 500',
    turnConfig: ENDLESS,
    mind: () => failing(counting(30)),
    play: opened('Count to 30, one number each.'),
    fault: (_channel, said) => counted(said, 30),
  },
  {
    name: 'a model that hangs',
    turnConfig: { ...ENDLESS, rounds: 2 },
    mind: () => (asked) => (asked.agent === 'lime' ? null : `My word number ${asked.before + 1}.`),
    play: opened('Two words each.'),
    fault: (channel, said) => {
      const order = PLAYERS.filter((id) => id !== 'lime');
      const timeouts = channel.facts().filter((fact) => fact.type === 'turnEnded' && fact.outcome === 'expired').length;
      return timeouts === 2 ? inOrder(said, [...order, ...order]) : `${timeouts} timeouts in place of 2`;
    },
  },
];

/** The texts of agents, from the journal. */
export function saidIn(channel: ArenaChannel): readonly Said[] {
  return channel.facts().flatMap((fact) => (fact.type === 'said' ? [{ agent: fact.agent, text: fact.text }] : []));
}

/** A person writes after every fifth text of an agent and must be answered in every mode. */
function personInTheMiddle(humanInterruptMode: (typeof INTERRUPT_MODES)[number]): Game {
  const asks = [1, 2, 3, 4];
  return {
    name: `a person every fifth turn, mode ${humanInterruptMode}`,
    turnConfig: { ...ENDLESS, humanInterruptMode },
    mind: () => (asked) => {
      const open = asks.filter((ask) => isPutTo(asked, `Question ${ask}.`));
      const words = open.map((ask) => `On question ${ask}.`).join(' ');
      const isLate = asked.all.includes('Question 4.');
      const number = asked.before + 1;
      return { text: words !== '' ? words : isLate ? 'PASS' : `My word number ${number}. ${CHATTER}`, overMs: 6_000 };
    },
    async play(channel) {
      await channel.write('Begin.');
      for (const ask of asks) {
        if (!(await reaches(channel, ask * 5))) return false;
        await channel.time.until(() => false, MIDDLE_MS);
        await channel.write(`Question ${ask}.`);
      }
      return await rests(channel, asks.length + 1);
    },
    fault: (channel, said) => {
      const facts = channel.facts();
      const answered = new Set(facts.flatMap((fact) => (fact.type === 'turnEnded' ? fact.answered : [])));
      const all = facts.flatMap((fact) => (fact.type === 'messageRouted' ? [fact.id] : []));
      const left = all.filter((id) => !answered.has(id));
      const silent = asks.filter((ask) => !said.some(({ text }) => text.includes(`question ${ask}.`)));
      if (humanInterruptMode === 'parallel') return unseen(channel, asks);
      if (left.length > 0) return `messages without an answer: ${left.join(', ')}`;
      return silent.length > 0 ? `questions that nobody spoke to: ${silent.join(', ')}` : null;
    },
  };
}

/** True when a model must answer a message now: by its prompt, or by an injection. */
function isPutTo({ last }: Asked, text: string): boolean {
  const [, inTheMiddle = ''] = /Take it into account now\.\n([^]*)$/u.exec(last) ?? [];
  return (
    inTheMiddle.includes(text) || ['to answer now', 'still open'].some((mark) => last.includes(`${mark}]\n${text}`))
  );
}

/** In `parallel` mode no agent must answer, and all agents see each message. */
function unseen({ models }: ArenaChannel, asks: readonly number[]): string | null {
  const blind = PLAYERS.filter((id) => {
    const { all = '' } = models.requests.findLast(({ agent }) => agent === id) ?? {};
    return asks.some((ask) => !all.includes(`Question ${ask}.`));
  });
  return blind.length === 0 ? null : `agents that did not see every question: ${blind.join(', ')}`;
}

/** Says the next number, up to `last`. The model reads the numbers in the channel. */
function counting(last: number): Mind {
  return ({ all }) => {
    const numbers = [...all.matchAll(/^\d+$/gmu)].map(([number]) => Number(number));
    const next = Math.max(0, ...numbers) + 1;
    return next > last ? 'SKIP' : String(next);
  };
}

/** Every third request fails at first, sometimes with a time to wait. */
function failing(mind: Mind): Mind {
  let asked = 0;
  const failures: readonly Reply[] = [
    { status: 429, retryAfter: 5 },
    { status: 500 },
    { status: 429 },
    { status: 503 },
  ];
  return (request) => {
    asked += 1;
    return asked % 3 === 0 ? (failures[(asked / 3) % failures.length] ?? 'PASS') : mind(request);
  };
}

function delegating({ agent, all, last }: Asked): Reply {
  if (agent === 'yuzu') return /six times seven\?/u.test(all) && !/It is 42/u.test(all) ? 'It is 42.' : 'PASS';
  if (agent !== 'fig') return 'PASS';
  if (/It is 42\./u.test(last)) return 'The answer is 42.';
  return /The answer is 42/u.test(all) ? 'PASS' : '@yuzu, what is six times seven?';
}

function previous(agent: string): string {
  const index = PLAYERS.findIndex((id) => id === agent);
  return PLAYERS[(index + LAP - 1) % LAP] ?? '';
}

const SKIPS = ['SKIP', '[pass]', '(nothing to add)', 'NO_REPLY', 'Pass.', '**SKIP**', 'no reply'];
/** A time in the middle of an answer. */
const MIDDLE_MS = 3_500;
const CHATTER = 'It is said slowly, so that a person can write in the middle of it and be heard at once.';
const LONG = 'The harbour needs another crane before the winter, and somebody has to say what it may cost. '
  .repeat(16)
  .trim();

function opened(text: string): Game['play'] {
  return async (channel) => {
    await channel.write(text);
    return await rests(channel, 1);
  };
}

/** True when the floor rests after this many messages of the person, and the channel shows all texts. */
async function rests(channel: ArenaChannel, messages: number): Promise<boolean> {
  const isOver = (): boolean => {
    const floor = channel.store.floors.state(channel.id);
    const routed = channel.facts().filter(({ type }) => type === 'messageRouted').length;
    return routed >= messages && floor?.turn === null && floor.exchange === null && isShown(channel);
  };
  return await channel.time.until(isOver, 24 * HOUR_MS);
}

async function reaches(channel: ArenaChannel, said: number): Promise<boolean> {
  return await channel.time.until(() => saidIn(channel).length >= said, HOUR_MS);
}

function isShown(channel: ArenaChannel): boolean {
  return channel.shown().length >= saidIn(channel).length;
}

function counted(said: readonly Said[], last: number): string | null {
  const expected = Array.from({ length: last }, (_, index) => String(index + 1));
  return differs(
    said.map(({ text }) => text),
    expected,
  );
}

function inLaps(said: readonly Said[], laps: number): string | null {
  return inOrder(said, Array.from({ length: laps }, () => PLAYERS).flat());
}

function inOrder(said: readonly Said[], order: readonly string[]): string | null {
  return differs(
    said.map(({ agent }) => agent),
    order,
  );
}

function differs(found: readonly string[], expected: readonly string[]): string | null {
  const at = Math.max(found.length, expected.length);
  for (let index = 0; index < at; index += 1) {
    if (found[index] !== expected[index]) return `at ${index + 1}: ${found[index]} in place of ${expected[index]}`;
  }
  return null;
}
