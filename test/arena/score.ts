import { openArena } from './channel.ts';
import type { ArenaChannel, PlatformName } from './channel.ts';
import { saidIn } from './games.ts';
import type { Game, Said } from './games.ts';
import { tokensOf } from './models.ts';
import type { Asked } from './models.ts';

/** The result of a game on a platform. */
export type Score = {
  readonly game: string;
  readonly platform: PlatformName;
  /** The fault in what was said; `null`: the game ended in order. */
  readonly fault: string | null;
  /** True when the game did not end. */
  readonly isStalled: boolean;
  /** Texts of agents that did not have the floor. */
  readonly twoSpeakers: number;
  /** Announced limits beyond those that the game expects. */
  readonly limitsTripped: number;
  /** Requests with texts of their agent that the channel does not have. */
  readonly historyDiffers: number;
  readonly tokens: readonly number[];
  /** Of a measured game: the part of each request that equals the same agent's request before. */
  readonly shares: readonly number[];
};

/** Plays a game and checks all texts and requests. */
export async function play(game: Game, platform: PlatformName): Promise<Score> {
  const channel = await openArena(platform, game.mind(), game.turnConfig);
  try {
    const isOver = await game.play(channel);
    const said = saidIn(channel);
    const limits = channel
      .facts()
      .filter((fact) => fact.type === 'announced' && fact.announcement.kind === 'limit').length;
    const { requests } = channel.models;
    return {
      game: game.name,
      platform,
      fault: !isOver ? 'it came to no end' : (shownAs(channel, said) ?? brokenBy(channel) ?? game.fault(channel, said)),
      isStalled: !isOver,
      twoSpeakers: spokeWithoutTheFloor(channel),
      limitsTripped: Math.abs(limits - (game.limits ?? 0)),
      historyDiffers: requests.filter((asked) => believesMore(asked, said)).length,
      tokens: requests.map(tokensOf),
      shares: game.measured === true ? sharesOf(requests) : [],
    };
  } finally {
    await channel.close();
  }
}

function brokenBy({ broken }: ArenaChannel): string | null {
  return broken.length === 0 ? null : `the program broke: ${String(broken[0])}`;
}

/** Compares the shown texts with what was said, in order. Returns the first difference; `null`: none. */
function shownAs(channel: ArenaChannel, said: readonly Said[]): string | null {
  const shown = channel.shown().map(plain).join(' ');
  const expected = said.map(({ agent, text }) => plain(`${agent}: ${text}`)).join(' ');
  const at = sharedStart(shown, expected);
  const [there, here] = [shown, expected].map((text) => text.slice(Math.max(0, at - 20), at + 60));
  return shown === expected ? null : `the channel shows "${there}" where "${here}" was said`;
}

/** Removes invisible marks, which platforms put into texts, and makes mentions of agents alike. */
function plain(text: string): string {
  return text.replace(/<@&\d+>|@\w+/gu, '@').replace(/[\p{Cf}\s]+/gu, '');
}

function spokeWithoutTheFloor(channel: ArenaChannel): number {
  let holder: string | null = null;
  let wrong = 0;
  for (const fact of channel.facts()) {
    if (fact.type === 'turnGranted' || fact.type === 'turnResumed') holder = fact.agent;
    else if (fact.type === 'said' && fact.agent !== holder) wrong += 1;
  }
  return wrong;
}

/** True unless the model's own past texts are the end of its texts in the channel at that time. */
function believesMore({ agent, messages }: Asked, said: readonly Said[]): boolean {
  const own = messages.filter(({ role }) => role === 'assistant').map(({ content }) => plain(content));
  const posted = said.filter((each) => each.agent === agent).map(({ text }) => plain(text));
  return !posted.join('').includes(own.join(''));
}

function sharesOf(requests: readonly Asked[]): readonly number[] {
  const before = new Map<string, string>();
  return requests.flatMap((asked) => {
    const text = [asked.system, ...asked.messages.map(({ role, content }) => `${role}\n${content}`)].join('\n');
    const last = before.get(asked.agent);
    before.set(asked.agent, text);
    return last === undefined ? [] : [sharedStart(text, last) / text.length];
  });
}

function sharedStart(one: string, other: string): number {
  let end = 0;
  while (end < one.length && one[end] === other[end]) end += 1;
  return end;
}

/** The results of all games, as the command's last line shows them. */
export type Total = {
  readonly games: number;
  readonly finishedInOrder: number;
  readonly stalls: number;
  readonly twoSpeakers: number;
  readonly limitsTripped: number;
  readonly historyDiffers: number;
  readonly promptTokensPerTurn: number;
  readonly samePrefixShare: number;
};

export function totalOf(scores: readonly Score[]): Total {
  const sum = (of: (score: Score) => number) => scores.reduce((total, score) => total + of(score), 0);
  const tokens = scores.flatMap((score) => score.tokens);
  return {
    games: scores.length,
    finishedInOrder: sum(({ fault }) => (fault === null ? 1 : 0)),
    stalls: sum(({ isStalled }) => (isStalled ? 1 : 0)),
    twoSpeakers: sum(({ twoSpeakers }) => twoSpeakers),
    limitsTripped: sum(({ limitsTripped }) => limitsTripped),
    historyDiffers: sum(({ historyDiffers }) => historyDiffers),
    promptTokensPerTurn: Math.round(tokens.reduce((total, each) => total + each, 0) / Math.max(1, tokens.length)),
    samePrefixShare: Math.round(median(scores.flatMap(({ shares }) => shares)) * 1_000) / 1_000,
  };
}

function median(numbers: readonly number[]): number {
  return numbers.toSorted((one, other) => one - other)[Math.floor(numbers.length / 2)] ?? 0;
}
