import { expect, onTestFailed } from 'vitest';
import { begin, newDisk, seeEqual } from './program.ts';
import type { Program, ProgramOptions } from './program.ts';
import type { Rig, Stage, Writing } from './rig.ts';

/** The parts of a contract test: a platform, and a program that the test can stop and start. */
export type Scene = {
  readonly stage: Stage;
  /** The first run of the program. */
  readonly program: Program;
  /** Starts the next run on the same database. */
  readonly again: (options?: ProgramOptions) => Promise<Program>;
  /** The database file. It is closed between two runs. */
  readonly file: string;
  /** Returns the messages of the channel as "PM: text" lines. */
  readonly talk: (thread?: string) => Promise<readonly string[]>;
  /** Writes as Ann. Resolves when the program has stored the message. */
  readonly says: (text: string, how?: Writing) => Promise<string>;
  /** Writes as Ann, and resolves when PM holds the floor and pauses. After its release, PM posts that it is done. */
  readonly pmPauses: (text?: string) => Promise<string>;
  readonly release: (agent: string) => void;
};

export type Act = (scene: Scene) => Promise<void>;
/** The options of the first run. */
export type Start = ProgramOptions | ((stage: Stage) => ProgramOptions);

/** Runs a scene on a new platform and closes everything after it. Fails when a part of the program failed for good. */
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

/** Prints the program's log of a failed test when CONCH_TEST_LOG is set. */
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
