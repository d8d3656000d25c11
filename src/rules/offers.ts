import { dirname } from 'node:path';
import { parseRule } from './rule.ts';
import { isSafe, safeVerbs } from './safe-commands.ts';
import { DELETERS, isRunner, programOf, startsOther } from './shell-programs.ts';
import type { Argv } from './safe-commands.ts';
import { shellQuoted } from './tool-use.ts';
import type { ToolUse, UsePart } from './tool-use.ts';
import { isAbout } from './verdict.ts';
import type { ToolVerdict } from './verdict.ts';

/** An always-allow rule on offer, and its meaning in words. */
export type AlwaysOffer = { readonly rule: string; readonly words: string };

/** Facts, besides the rules, that decide whether an always-allow rule is offered. */
export type OfferFacts = {
  readonly shownWhole: boolean;
  /** True when the call has a caution, such as untrusted text in the session. */
  readonly tainted: boolean;
  /** True when the configuration trusts the tool's server. */
  readonly trusted: boolean;
  /** False when the server says that the tool destroys nothing; true or absent when unknown. */
  readonly destructive?: boolean;
};

/**
 * Returns the always-allow rules to offer for a call that became a request, narrowest first. Returns none for a call of
 * several parts, after a rule that always asks, after a verdict by `members`, and when `facts` forbid offers. Of an
 * agent's own tools, only calls about a command whose words are all known, a host, or one path inside the folder get
 * offers. Deleting, and commands that run code or name a path outside the folder, get none.
 */
export function offersFor(use: ToolUse, { by }: ToolVerdict, facts: OfferFacts): readonly AlwaysOffer[] {
  const [part, more] = use.parts;
  if (more !== undefined || by === 'ask!' || by === 'members' || !facts.shownWhole || facts.tainted) return [];
  const offers =
    part.mcp === null ? offersOf(part) : facts.trusted || facts.destructive === false ? mcpOffers(part) : [];
  return offers.filter(({ rule }) => {
    const read = parseRule(rule);
    return read.ok && isAbout(read.rule, part, false);
  });
}

const LONGEST_VALUE = 200;
/** Matches a text with a character that has a special meaning in rules, or with a space at its beginning or end. */
const SPECIAL = /[*\\,()!\n[\]?#]|^\s|\s$/;

function offersOf({ kind, about }: UsePart): readonly AlwaysOffer[] {
  if (kind === 'delete' || kind === 'switch_mode') return [];
  if (about.of === 'words') return about.words === null || about.outside ? [] : commandOffers(about.words);
  if (about.of === 'host')
    return about.host === null ? [] : [{ rule: `fetch(domain:${about.host})`, words: `everything from ${about.host}` }];
  const [real, other] = about.of === 'path' ? about.real : [];
  const path = other === undefined ? real?.folder : null;
  return !path || SPECIAL.test(path) ? [] : pathOffers(kind, path);
}

function commandOffers(words: Argv): readonly AlwaysOffer[] {
  const [program = '', second = ''] = words;
  if (isRunner(program) || DELETERS.has(programOf(program)) || startsOther(words)) return [];
  const exact = words.map(quotedWord).join(' ');
  const begin = safeVerbs(program) === null ? [program] : [program, second];
  const prefix = `${begin.map(quotedWord).join(' ')} *`;
  const wider =
    words.length <= begin.length || !isSafe(words)
      ? []
      : [{ rule: `execute(${prefix})`, words: `every command "${prefix}"` }];
  return [{ rule: `execute(${exact})`, words: 'exactly this command' }, ...wider];
}

function pathOffers(kind: UsePart['kind'], path: string): readonly AlwaysOffer[] {
  const folder = dirname(path);
  const inside = folder === '.' ? [] : [{ rule: `${kind}(/${folder}/**)`, words: `${kind} everything in ${folder}` }];
  return [
    { rule: `${kind}(/${path})`, words: `${kind} ${path}${kind === 'edit' ? ', any content' : ''}` },
    ...inside,
    { rule: `${kind}(**)`, words: `${kind} everything in the agent's folder` },
  ];
}

function mcpOffers({ mcp, about }: UsePart): readonly AlwaysOffer[] {
  if (mcp === null || about.of !== 'input' || SPECIAL.test(mcp.name)) return [];
  const tool = `mcp__${mcp.server}__${mcp.name}`;
  const pairs = Object.entries(about.values);
  const isPlain = ([key, value]: readonly [string, string]): boolean =>
    /^[\w.-]+$/.test(key) && value.length <= LONGEST_VALUE && !SPECIAL.test(value);
  const places = pairs.filter((pair) => /path|file|dir|folder|repo|owner|project/i.test(pair[0]));
  const offer = (chosen: readonly (readonly [string, string])[]): readonly AlwaysOffer[] => {
    const spec = chosen.map(([key, value]) => `${key}=${value}`).join(', ');
    const words = `${mcp.name} with ${spec}${chosen.length < about.keys.length ? ', any content' : ''}`;
    return chosen.length > 0 && chosen.every(isPlain) ? [{ rule: `${tool}(${spec})`, words }] : [];
  };
  return [
    ...offer(pairs),
    ...(places.length < pairs.length ? offer(places) : []),
    { rule: tool, words: `${mcp.name} with any input` },
  ];
}

function quotedWord(word: string): string {
  return /^[\w@%+=:,./-][\w@%+=:,./~^-]*$/.test(word) ? word : shellQuoted(word);
}
