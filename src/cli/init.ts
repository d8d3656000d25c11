import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { createInterface } from 'node:readline/promises';
import { PARTS, installPartCommand, missingPackages } from '../config/parts.ts';
import {
  STARTER_AGENTS,
  STARTER_PLATFORMS,
  starterConfig,
  starterNames,
  starterParts,
  starterVariables,
  starterVariablesText,
} from '../config/starter.ts';
import { MODE_NAMES } from '../config/schema.ts';
import type { StarterAnswers } from '../config/starter.ts';
import { errorMessage } from '../lib/defined.ts';
import { conchCommand } from '../lib/installation.ts';
import { EXIT_CODES } from '../runtime/exit-codes.ts';
import type { ExitCode } from '../runtime/exit-codes.ts';
import { failed } from './ctl.ts';

/**
 * Answers to the questions of `conch init` that the command line gives; `null` for questions that it does not answer.
 */
export type InitFlags = { readonly [Key in keyof StarterAnswers]: string | null };

/** What `conch init` uses besides its arguments: files, the terminal, the installed packages. */
export type InitWorld = {
  /** The folder for `.env`. */
  readonly cwd: string;
  /** The path of the configuration. */
  readonly file: string;
  /**
   * Asks a person a question; resolves with `null` when the input ends. The function itself is `null` without a
   * terminal.
   */
  readonly ask: ((question: string) => Promise<string | null>) | null;
  /** Creates a file with mode 0600. Returns false when the file already exists, and leaves that file unchanged. */
  readonly create: (path: string, text: string) => boolean;
  readonly isFile: (path: string) => boolean;
  readonly isInstalled: (name: string) => boolean;
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
};

/**
 * Asks for the answers that the flags do not give, and writes the configuration file. Also writes `.env` when the
 * answers need variables and there is no `.env`. Never overwrites a file.
 */
export async function runInit(flags: InitFlags, world: InitWorld): Promise<ExitCode> {
  if (world.isFile(world.file)) return failed(existsText(world.file), EXIT_CODES.refused, world);
  const answers = await askAll(flags, world);
  if (typeof answers === 'string') return failed(answers, EXIT_CODES.usage, world);
  try {
    return writeAll(answers, world);
  } catch (error) {
    const text = `A file could not be written (${errorMessage(error)}). Run conch init in a folder that you can write to, with free disk space.`;
    return failed(text, EXIT_CODES.diskFull, world);
  }
}

function writeAll(answers: StarterAnswers, world: InitWorld): ExitCode {
  if (!world.create(world.file, starterConfig(answers)))
    return failed(existsText(world.file), EXIT_CODES.refused, world);
  const variables = starterVariables(answers);
  const env = resolve(world.cwd, '.env');
  const isNew = variables.length > 0 && world.create(env, starterVariablesText(variables));
  world.out(`Written: ${[world.file, ...(isNew ? [env] : [])].join(', ')}\n`);
  for (const [index, step] of nextSteps(answers, world).entries()) world.out(`${index + 1}. ${step}\n`);
  return EXIT_CODES.ok;
}

/** Creates a file with mode 0600. Returns false when the file already exists, and leaves that file unchanged. */
export function newFile(path: string, text: string): boolean {
  try {
    writeFileSync(path, text, { flag: 'wx', mode: 0o600 });
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false;
    throw error;
  }
}

/** Opens the terminal for questions. Call `close` after the last question; else the process does not exit. */
export function typedAnswers(): { readonly ask: NonNullable<InitWorld['ask']>; readonly close: () => void } {
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  const ended = new Promise<null>((end) => terminal.once('close', () => end(null)));
  return {
    ask: (question) => Promise.race([terminal.question(question), ended]),
    close: () => terminal.close(),
  };
}

/**
 * A question of `conch init`: its words on the terminal, the answer that is taken when none is given, and a check that
 * returns what is wrong with an answer, or `null`.
 */
type Question = {
  readonly flag: string;
  readonly text: (answers: AnswersSoFar) => string;
  readonly byDefault: (answers: AnswersSoFar) => string | null;
  readonly fault: (answer: string, answers: AnswersSoFar) => string | null;
};

type AnswersSoFar = Readonly<Record<keyof StarterAnswers, string>>;

const AGENT_ID = /^[\w-]{1,64}$/;
const CHANNELS = {
  page: {
    is: AGENT_ID,
    text: 'The name of the channel',
    byDefault: 'team',
    wrong: 'up to 64 letters, digits, "_", "-"',
  },
  discord: {
    is: /^\d{15,21}$/,
    text: 'The id of the channel (in Discord: right click, Copy Channel ID)',
    byDefault: null,
    wrong: 'the digits of a Discord channel id',
  },
  slack: {
    is: /^[CGD][A-Z0-9]{6,20}$/,
    text: 'The id of the channel (in Slack: at the end of "View channel details")',
    byDefault: null,
    wrong: 'the id of a Slack channel, such as C0123456789',
  },
} as const;

const QUESTIONS: Readonly<Record<keyof StarterAnswers, Question>> = {
  platform: choice('platform', 'Where do people and agents talk?', STARTER_PLATFORMS),
  channel: {
    flag: 'channel',
    text: ({ platform }) => placeOf(platform).text,
    byDefault: ({ platform }) => placeOf(platform).byDefault,
    fault: (answer, { platform }) =>
      placeOf(platform).is.test(answer) ? null : `Expected ${placeOf(platform).wrong}, got "${answer}"`,
  },
  agents: choice('agents', 'What are the agents?', STARTER_AGENTS),
  names: {
    flag: 'names',
    text: () => 'The names of the agents, with commas',
    byDefault: ({ agents }) => starterNames(pick(STARTER_AGENTS, agents)).join(','),
    fault: (answer) => {
      const names = namesIn(answer);
      if (names.length === 0 || !names.every((name) => AGENT_ID.test(name)))
        return `Expected names of letters, digits, "_" and "-" with commas between them, got "${answer}"`;
      return new Set(names).size === names.length ? null : `Expected different names, got "${answer}"`;
    },
  },
  mode: choice('mode', 'What does a message do while an agent speaks?', MODE_NAMES),
};

const ORDER = ['platform', 'channel', 'agents', 'names', 'mode'] as const;

async function askAll(flags: InitFlags, world: InitWorld): Promise<StarterAnswers | string> {
  const answers: Record<keyof StarterAnswers, string> = { platform: '', channel: '', agents: '', names: '', mode: '' };
  for (const key of ORDER) {
    const answer = await answerTo(QUESTIONS[key], flags[key], answers, world);
    if ('wrong' in answer) return answer.wrong;
    answers[key] = answer.answer;
  }
  return {
    platform: pick(STARTER_PLATFORMS, answers.platform),
    channel: answers.channel,
    agents: pick(STARTER_AGENTS, answers.agents),
    names: namesIn(answers.names),
    mode: pick(MODE_NAMES, answers.mode),
  };
}

type Answer = { readonly answer: string } | { readonly wrong: string };

async function answerTo(
  question: Question,
  flag: string | null,
  answers: AnswersSoFar,
  world: InitWorld,
): Promise<Answer> {
  const { flag: name, text, byDefault, fault } = question;
  const preset = byDefault(answers);
  if (flag !== null) {
    const wrong = fault(flag, answers);
    return wrong === null ? { answer: flag } : { wrong: `--${name}: ${wrong}.` };
  }
  if (world.ask === null) {
    if (preset !== null) return { answer: preset };
    return { wrong: `--${name} is missing. ${text(answers)}: there is no default, and no terminal to ask on.` };
  }
  for (;;) {
    const typed = await world.ask(`${text(answers)}${preset === null ? '' : ` [${preset}]`}: `);
    if (typed === null) return { wrong: 'The input ended before the last question. Nothing was written.' };
    const answer = typed.trim() || (preset ?? '');
    const wrong = fault(answer, answers);
    if (wrong === null) return { answer };
    world.out(`${wrong}.\n`);
  }
}

function choice(flag: string, text: string, options: readonly [string, ...string[]]): Question {
  return {
    flag,
    text: () => `${text} ${options.join(', ')}`,
    byDefault: () => options[0],
    fault: (answer) => (options.includes(answer) ? null : `Expected one of ${options.join(', ')}, got "${answer}"`),
  };
}

function nextSteps(answers: StarterAnswers, { isInstalled, cwd }: InitWorld): readonly string[] {
  const parts = starterParts(answers).filter((part) => missingPackages(part, isInstalled).length > 0);
  const labels = parts.map((part) => PARTS[part].label).join(', ');
  const variables = starterVariables(answers).map(([name, place]) => `${name} (${place})`);
  return [
    ...(parts.length === 0 ? [] : [`Install the packages for ${labels}: ${installPartCommand(parts)}`]),
    ...(variables.length === 0 ? [] : [`Set in ${resolve(cwd, '.env')}: ${variables.join(', ')}`]),
    `Check it: ${conchCommand('doctor')}`,
    `Start it: ${conchCommand()}`,
  ];
}

function existsText(file: string): string {
  return `${file} exists, and conch init overwrites nothing. Edit that file, or name another one: CONCH_CONFIG=other.json ${conchCommand('init')}`;
}

function placeOf(platform: string): (typeof CHANNELS)[keyof typeof CHANNELS] {
  return CHANNELS[pick(STARTER_PLATFORMS, platform)];
}

function namesIn(text: string): readonly string[] {
  return text
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '');
}

function pick<Option extends string>(options: readonly Option[], text: string): Option {
  const found = options.find((option) => option === text);
  if (found === undefined) throw new Error(`impossible: the answer "${text}" was checked`);
  return found;
}
