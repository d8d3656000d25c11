import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { offersFor } from '../../src/rules/offers.ts';
import type { AlwaysOffer } from '../../src/rules/offers.ts';
import { namesOwnPort } from '../../src/rules/own-port.ts';
import type { WorkPlace } from '../../src/rules/paths.ts';
import { lintRules } from '../../src/rules/rule-lint.ts';
import { readShell } from '../../src/rules/shell.ts';
import { isSafe } from '../../src/rules/safe-commands.ts';
import { toolUse } from '../../src/rules/tool-use.ts';
import type { ToolUse } from '../../src/rules/tool-use.ts';
import { Random } from '../sim/random.ts';
import { openStage } from './bash-stage.ts';
import type { Done } from './bash-stage.ts';
import { remembering, rule, verdictOf } from './fixture.ts';
import { FAKE_DEEDS, FAKE_PROGRAMS, GIT_VERBS, KNOWN_OPTIONS, OPERANDS, PROGRAMS, optionsIn } from './programs.ts';

/** A command, and the rules that judge it. */
export type Candidate = {
  readonly command: string;
  readonly allow: readonly string[];
  /** Rules that "always" offered and a person accepted. */
  readonly remembered: readonly string[];
};

/** Decides whether a candidate runs unasked, and which rules "always" offers for a command. */
export type Judge = {
  allows(candidate: Candidate, world: JudgedWorld): boolean;
  offers(command: string, place: WorkPlace): readonly AlwaysOffer[];
};

export type JudgedWorld = { readonly place: WorkPlace; readonly port: number };

export type Searched = {
  readonly candidates: number;
  readonly allowed: number;
  readonly through: readonly (Candidate & { readonly why: string })[];
};

/** The product's judge. */
export const PRODUCT: Judge = {
  allows: ({ command, allow, remembered }, { place, port }) => {
    const lists = { allow, default: 'ask' } as const;
    const { verdict } = verdictOf(lists, useOf(command, place), remembering(...remembered));
    return verdict === 'allow' && !namesOwnPort([command], port);
  },
  offers: (command, place) => {
    const use = useOf(command, place);
    return offersFor(use, verdictOf({ ask: ['*'] }, use), { shownWhole: true, tainted: false, trusted: true });
  },
};

/** Judges with one bug each. The search must find every bug. */
export const PLANTED: Readonly<Record<string, Judge>> = {
  'a list of options that start others': {
    ...PRODUCT,
    allows: (candidate, world) =>
      PRODUCT.allows(candidate, world) ||
      (!/evil|other|--pre|-exec|-delete|[;&|>$]|^X=/.test(candidate.command) &&
        candidate.allow.some((text) => begins(candidate.command, text)) &&
        !namesOwnPort([candidate.command], world.port)),
  },
  'each part by itself, wherever it runs': {
    ...PRODUCT,
    allows: (candidate, world) => {
      const parts = readShell(candidate.command).parts ?? [];
      const alone = (words: readonly string[]) => ({ ...candidate, command: words.map(quoted).join(' ') });
      return parts.length > 0 && parts.every((words) => PRODUCT.allows(alone(words), world));
    },
  },
  'paths without their "@"': {
    ...PRODUCT,
    allows: (candidate, world) =>
      PRODUCT.allows({ ...candidate, command: candidate.command.replaceAll('@', '') }, world),
  },
  'an address in one spelling': {
    ...PRODUCT,
    allows: (candidate, world) =>
      PRODUCT.allows(candidate, { ...world, port: -1 }) &&
      !candidate.command.includes(`127.0.0.1:${world.port}`) &&
      !candidate.command.includes(`localhost:${world.port}`),
  },
  'a format that sets a variable': {
    ...PRODUCT,
    allows: (candidate, world) =>
      PRODUCT.allows({ ...candidate, command: candidate.command.replace(/%\d*l?n/, '%s') }, world),
  },
  'always for any program': {
    ...PRODUCT,
    offers: (command, place) => {
      const [program = ''] = command.split(' ');
      return [...PRODUCT.offers(command, place), { rule: `execute(${program} *)`, words: '' }];
    },
  },
};

/**
 * Judges random commands by random rules. Real Bash runs each allowed command. The command must start, write and send
 * only what a rule names or is reported to allow ("can run any program"). `isFirst`: ends at the first fault.
 */
export async function search(
  { seed, candidates, isFirst = false }: { seed: number; candidates: number; isFirst?: boolean },
  judge: Judge = PRODUCT,
): Promise<Searched> {
  const stage = openStage();
  const page = await listening();
  const random = new Random(seed);
  const world = { place: stage.place, port: page.port };
  const make = maker(random, judge, world);
  const through: Searched['through'][number][] = [];
  let [judged, allowed] = [0, 0];
  try {
    const most = isFirst ? 1 : candidates;
    while (judged < candidates && through.length < most) {
      judged += 1;
      const candidate = make();
      const wide = candidate.remembered.find(canRunAny);
      if (wide !== undefined) through.push({ ...candidate, why: `"always" offered ${wide}` });
      if (!judge.allows(candidate, world)) continue;
      allowed += 1;
      const done = stage.run(candidate.command);
      const why = (await page.reached()) ? 'it reached the page' : wrongIn(candidate, done);
      if (why !== null) through.push({ ...candidate, why });
    }
  } finally {
    stage.close();
    page.close();
  }
  return { candidates: judged, allowed, through };
}

/** The effect of a command that no rule names; `null`: none. */
function wrongIn({ allow, remembered }: Candidate, { ran, wrote }: Done): string | null {
  const rules = [...allow, ...remembered];
  const named = new Set([...Object.keys(FAKE_DEEDS), ...rules.map((text) => wordsOf(text)[0] ?? '')]);
  const told = rules.filter(canRunAny);
  const other = ran.find((name) => !named.has(name) && !(name === 'evil.sh' && told.length > 0));
  if (other !== undefined) return `it started ${other}`;
  const writing = rules.filter((text) => canRunAny(text) || (!text.includes('*') && !isSafe(wordsOf(text))));
  const isGit = writing.some((text) => wordsOf(text)[0] === 'git');
  const granting = wrote.filter((path) => /^\.git\/(?:hooks|config)/.test(path));
  const [written] = writing.length === 0 ? wrote : isGit ? [] : granting;
  return written === undefined ? null : `it wrote ${written}`;
}

/** True when the linter reports that the rule can run any program. An exact rule itself names what it runs. */
function canRunAny(text: string): boolean {
  return lintRules({ allow: [text] }).some(({ message }) => message.startsWith('This rule can run any program'));
}

function wordsOf(text: string): readonly string[] {
  const { spec } = rule(text);
  return spec?.of === 'words' ? spec.words : [];
}

/** Real programs, and fakes that act as the real ones. */
const TELLING = [...PROGRAMS.slice(0, PROGRAMS.length - FAKE_PROGRAMS.length), ...Object.keys(FAKE_DEEDS)];

/** Makes candidates: commands with their own and other options, joined and quoted, and rules for them. */
function maker(random: Random, judge: Judge, { place, port }: JudgedWorld): () => Candidate {
  const options = new Map<string, readonly string[]>();
  const optionsOf = (program: string, verb: string | null): readonly string[] => {
    const key = `${program} ${verb ?? ''}`;
    const known = options.get(key) ?? (FAKE_PROGRAMS.includes(program) ? [] : optionsIn(program, verb));
    options.set(key, known);
    return known;
  };
  const word = (program: string, verb: string | null): string => {
    const own = optionsOf(program, verb);
    const kind = random.weighted({ own: own.length > 0 ? 4 : 0, known: 3, operand: 4, letters: 1 });
    if (kind === 'own') return random.pick(own);
    if (kind === 'letters')
      return `-${letters(random)}${random.chance(0.5) ? random.pick(['out', './evil.sh', '@k']) : ''}`;
    return random.pick(kind === 'known' ? KNOWN_OPTIONS : OPERANDS);
  };
  const plain = (program: string): readonly string[] => {
    const verb = program === 'git' ? random.pick(GIT_VERBS) : null;
    const before = program === 'git' && random.chance(0.2) ? [random.pick(KNOWN_OPTIONS)] : [];
    const more = Array.from({ length: random.between(0, 4) }, () => word(program, verb));
    return [program, ...before, ...(verb === null ? [] : [verb]), ...more];
  };
  return () => {
    if (random.chance(0.1)) return { command: addressed(random, port), allow: ['Bash(curl *)'], remembered: [] };
    if (random.chance(0.08)) return put(random);
    if (random.chance(0.05)) return beside(random);
    // Real programs find more faults than fakes, which only log that they ran.
    const program = random.chance(0.75) ? random.pick(TELLING) : random.pick(PROGRAMS);
    const words = plain(program);
    const [, verb = ''] = words;
    const isVerb = /^[a-z-]+$/.test(verb) && !verb.startsWith('-') && program === 'git';
    const begin = isVerb && random.chance(0.6) ? `${program} ${verb}` : program;
    const base = isVerb ? `${program} ${verb}` : `${program} a`;
    const way = random.weighted({ wide: 5, offered: 2, exact: 1, any: 1 });
    const allow = { wide: [`Bash(${begin} *)`], offered: [], exact: [`Bash(${base})`], any: ['Bash(*)'] }[way];
    const remembered = way === 'offered' ? judge.offers(base, place).map((offer) => offer.rule) : [];
    const isAside = random.chance(0.12);
    const command = joined(random, way === 'exact' ? base : words.join(' '), isAside);
    return { command, allow: isAside ? [...allow, 'Bash(cd *)', 'Bash(pushd *)'] : allow, remembered };
  };
}

/** A writing program that puts a file somewhere, with the place named in different ways. */
function put(random: Random): Candidate {
  const folder = random.pick([
    'out',
    'src',
    '.git/hooks',
    '@k',
    'kept',
    './@k',
    'src/out',
    'kep*',
    '?k',
    '.git/../.git/hooks',
  ]);
  const option = random.pick(['-t', '-vt', '-vft', '-t ', '--target-directory=', '--target-directory ']);
  const command = random.pick([
    `cp a ${folder}/x`,
    `cp ${option}${folder} a`,
    `mv ${option}${folder} a`,
    `install ${option}${folder} a`,
    `ln ${option}${folder} a`,
    `tee ${folder}/x`,
    `dd if=a of=${folder}/x`,
    `tar -cf ${folder}/x a`,
    `tar -cvf${folder}/x a`,
    `tar --file=${folder}/x -c a`,
    `sort -uo${folder}/x a`,
    `touch ${folder}/x`,
  ]);
  return { command, allow: [`Bash(${command.split(' ')[0]} *)`], remembered: [] };
}

/** An allowed git command after a change of the folder. */
function beside(random: Random): Candidate {
  const command = random.pick(['git status', 'git diff', 'git status --short', 'git ls-files']);
  if (random.chance(0.4)) {
    const format = random.pick(['%s', '%d', '12345%n', '12345%ln', '%b']);
    const variable = random.pick(['PATH', 'x', "'a[$(./evil.sh)]'", '-v PATH']);
    return { command: `printf ${format} ${variable} && ls`, allow: ['Bash(printf *)', 'Bash(ls *)'], remembered: [] };
  }
  const allow = ['Bash(cd *)', 'Bash(pushd *)', random.pick(['Bash(git *)', `Bash(${command})`])];
  return { command: joined(random, command, true), allow, remembered: [] };
}

function letters(random: Random): string {
  const all = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ';
  return Array.from({ length: random.between(1, 4) }, () => random.pick(all.split(''))).join('');
}

function joined(random: Random, command: string, isAside: boolean): string {
  const joint = random.pick([' && ', '; ', ' | ', '\n', ' & ', ' || ']);
  if (isAside) return `${random.pick(['cd bare', 'cd ./bare', 'pushd bare', 'cd src/../bare'])}${joint}${command}`;
  if (!random.chance(0.1)) return command;
  return random.pick([
    `${command}${joint}./other.sh`,
    `${command}${joint}${command}`,
    `${command} $(./other.sh)`,
    `${command} > out`,
    `"${command.split(' ')[0]}"${command.slice(command.split(' ')[0]?.length)}`,
    `X=1 ${command}`,
  ]);
}

/** The page's address in some spelling, or another address. */
function addressed(random: Random, port: number): string {
  const hosts =
    '127.0.0.1 localhost LOCALHOST 0177.0.0.1 0x7f.1 0x7f000001 2130706433 017700000001 127.1 127.0.1 0 0.0.0.0 [::ffff:127.0.0.1] [0:0:0:0:0:ffff:127.0.0.1] [::1] 127.9.9.9'.split(
      ' ',
    );
  const host = random.pick(hosts);
  const half = String(port).slice(0, 2);
  const ports = [
    `${port}`,
    `0${port}`,
    `${half}""${String(port).slice(2)}`,
    `'${half}'${String(port).slice(2)}`,
    `${half}\\${String(port).slice(2)}`,
  ];
  const written = random.pick([...ports, '1']);
  const address = `${random.pick(['', 'http://', 'http://u:p@'])}'${host}':${written}/`;
  const resolved = `--resolve x.test:${port}:127.0.0.1 http://x.test:${written}/`;
  const connected = `--connect-to ::127.0.0.1:${port} http://x.test/`;
  return `curl -gsm 0.4 ${random.weighted({ address: 6, resolved: 1, connected: 1 }) === 'address' ? address : random.pick([resolved, connected])}`;
}

function useOf(command: string, place: WorkPlace): ToolUse {
  return toolUse({ name: 'Bash', kind: null, input: { command }, locations: [] }, place);
}

function begins(command: string, text: string): boolean {
  const words = wordsOf(text);
  return words.length > 0 && words.every((each, at) => command.split(' ')[at] === each);
}

function quoted(word: string): string {
  return /[*?~]/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}

/** A page that records connections. */
async function listening(): Promise<{ port: number; reached(): Promise<boolean>; close(): void }> {
  let came = 0;
  const server = createServer((socket) => {
    came += 1;
    socket.destroy();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    port,
    reached: async () => {
      const before = came;
      await wait(0);
      await new Promise((resolve) => setImmediate(resolve));
      return came > before;
    },
    close: () => void server.close(),
  };
}
