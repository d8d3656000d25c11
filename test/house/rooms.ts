import { roomOf } from './imports.ts';
import type { Import } from './imports.ts';

/** A room: its content, the rooms it may import, and the rooms of which it may import only types. */
export type Room = {
  readonly name: string;
  readonly what: string;
  readonly may: readonly string[];
  readonly mayTypes: readonly string[];
};

/** The allowed imports between rooms. The table in CONTRIBUTING.md is generated from it. */
export const ROOMS: readonly Room[] = [
  { name: 'lib', what: 'no domain: clock, alarm, retry, the guard of every server', may: [], mayTypes: [] },
  {
    name: 'rules',
    what: 'what agents may do with tools, as pure functions: parses rules, commands and paths, and decides',
    may: ['lib'],
    mayTypes: [],
  },
  {
    name: 'config',
    what: '`turnConfig.json` and the environment, checked; the texts of announcements',
    may: ['rules', 'lib'],
    mayTypes: [],
  },
  {
    name: 'engine',
    what: 'durable state machines in SQLite: journal, inbox, outbox and its delivery, replay, backup',
    may: ['lib'],
    mayTypes: [],
  },
  {
    name: 'turns',
    what: 'the floor as pure functions (`floor`), commands (`commands`), words and signals in texts (`text`), and the manager, the one door to all floors',
    may: ['engine', 'lib'],
    mayTypes: ['config'],
  },
  {
    name: 'work',
    what: 'what agents do, each as a state machine: the tool work of each turn and background runs (`runs`), `reviews`, `crews`',
    may: ['turns', 'engine', 'lib'],
    mayTypes: [],
  },
  {
    name: 'agents',
    what: 'agent sessions, prompts, tools, and the five backends',
    may: ['turns', 'rules', 'engine', 'lib'],
    mayTypes: ['config'],
  },
  {
    name: 'adapters',
    what: 'one folder per chat platform, and their shared parts (`delivery`)',
    may: ['turns', 'engine', 'lib'],
    mayTypes: ['config'],
  },
  {
    name: 'runtime',
    what: 'one running process: joins floors, agents and adapters',
    may: ['adapters', 'agents', 'work', 'turns', 'engine', 'config', 'rules', 'lib'],
    mayTypes: [],
  },
  {
    name: 'cli',
    what: 'the command line, the doctor',
    may: ['runtime', 'adapters', 'agents', 'work', 'turns', 'engine', 'config', 'rules', 'lib'],
    mayTypes: [],
  },
];

/** The import patterns that lint must refuse in a room. */
export function lintPatterns({ name, may, mayTypes }: Room): readonly object[] {
  const others = ROOMS.map((room) => room.name).filter((other) => other !== name && !may.includes(other));
  const closed = others.filter((other) => !mayTypes.includes(other));
  const above = '^(?:\\.\\./)+';
  const types = mayTypes.length === 0 ? [] : [{ regex: `${above}(?:${mayTypes.join('|')})/`, allowTypeImports: true }];
  return [{ regex: `${above}(?:(?:${closed.join('|')})/|main\\.ts$)` }, ...types].map((pattern) => ({
    ...pattern,
    message: `${name} may import ${[...may, ...mayTypes.map((other) => `types of ${other}`)].join(', ') || 'nothing of ours'}`,
  }));
}

/** Imports across closed borders. Files in no room, the launchers, may import everything. */
export function broken(imports: readonly Import[]): readonly Import[] {
  return imports.filter(({ from, to, types }) => {
    const room = ROOMS.find(({ name }) => name === roomOf(from));
    const other = roomOf(to);
    if (roomOf(from) === '' || roomOf(from) === other) return false;
    return room === undefined || !(room.may.includes(other) || (types && room.mayTypes.includes(other)));
  });
}
