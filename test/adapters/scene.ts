import { expect, onTestFailed } from 'vitest';
import { begin, newDisk, seeEqual } from './program.ts';
import type { Program, ProgramOptions } from './program.ts';
import type { Rig, Stage, Writing } from './rig.ts';

/** What a test has: the platform, and the program on it, which it may end and begin again. */
export type Scene = {
  readonly stage: Stage;
  /** The first life of the program. */
  readonly program: Program;
  /** Begins the next life, on the same database. */
  readonly again: (options?: ProgramOptions) => Promise<Program>;
  /** The file of the database. Nobody has it open between two lives. */
  readonly file: string;
  /** What people see in the channel, as "PM: text" lines. */
  readonly talk: (thread?: string) => Promise<readonly string[]>;
  /** Ann writes, and the program has taken it in. */
  readonly says: (text: string, how?: Writing) => Promise<string>;
  /** Ann writes, and PM has the floor and pauses; when it is released it says that it is done. */
  readonly pmPauses: (text?: string) => Promise<string>;
  readonly release: (agent: string) => void;
};

export type Act = (scene: Scene) => Promise<void>;
/** How the program is set up at first. */
export type Start = ProgramOptions | ((stage: Stage) => ProgramOptions);

/** Plays a scene on a fresh platform, and ends everything after it. Nothing may have gone wrong for good. */
export async function play(rig: Rig, start: Start, act: Act): Promise<void> {
  using disk = newDisk();
  const stage = await rig.open();
  const lives: Program[] = [];
  const lines: string[] = [];
  const again = async (options: ProgramOptions = {}): Promise<Program> => {
    const program = await begin(stage, disk, rig.capabilities, { ...options, log: (line) => void lines.push(line) });
    lives.push(program);
    return program;
  };
  onTestFailed(() => tellLog(lines));
  try {
    const program = await again(typeof start === 'function' ? start(stage) : start);
    await act(sceneOn(stage, program, { again, file: disk.file }));
    expect(lives.flatMap(({ broken }) => broken)).toEqual([]);
  } finally {
    for (const life of lives) await life.stop();
    await stage.close();
  }
}

/** With CONCH_TEST_LOG in the environment, a test that failed shows what the program had logged. */
function tellLog(log: readonly string[]): void {
  if (process.env['CONCH_TEST_LOG'] !== undefined) console.log(log.join(''));
}

function sceneOn(stage: Stage, program: Program, { again, file }: Pick<Scene, 'again' | 'file'>): Scene {
  const { channel } = stage;
  const { cast } = program;
  const says: Scene['says'] = async (text, how) => {
    const id = await stage.write('ann', text, how);
    await seeEqual(() => (program.message(id)?.fate ?? null) !== null, true);
    return id;
  };
  return {
    stage,
    program,
    again,
    file,
    says,
    talk: async (thread) => (await stage.read(thread)).map(({ author, text }) => `${author}: ${text}`),
    async pmPauses(text = 'Build a bridge') {
      cast.play('pm', 'pause', { say: 'PM is done' });
      const id = await says(text);
      await cast.paused('pm', channel);
      return id;
    },
    release: (agent) => cast.release(agent, channel),
  };
}
