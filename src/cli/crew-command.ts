import type { Config } from '../config/config.ts';
import { EXIT_CODES } from '../runtime/exit-codes.ts';
import type { ExitCode } from '../runtime/exit-codes.ts';
import { askBot, failed, harmless, notRunning, runCtl } from './ctl.ts';
import type { CtlWorld } from './ctl.ts';

type CrewCall = {
  readonly words: readonly string[];
  /** The id of the crew; `null` for the only one. */
  readonly crew: string | null;
  readonly json: boolean;
};

type CrewWorld = CtlWorld & {
  readonly signal: AbortSignal;
  sleep(ms: number): Promise<void>;
  readonly isTerminal: boolean;
};

const REDRAW_MS = 1_000;
/** Moves the cursor to the top left and clears the screen. */
const CLEAR = '\u001B[H\u001B[J';

/**
 * Gives a command to a crew, as `/crew` does. In a terminal and without `json`, the commands `dashboard` and `d` redraw
 * the dashboard each second, until `signal` aborts or Conch does not answer.
 */
export async function runCrew(call: CrewCall, config: Pick<Config, 'crews'>, world: CrewWorld): Promise<ExitCode> {
  const { crews } = config;
  const crew = call.crew === null && crews.length === 1 ? crews[0] : crews.find(({ id }) => id === call.crew);
  if (crew === undefined) {
    const names = crews.map(({ id }) => id).join(', ');
    const none = 'turnConfig.json has no crews: add one under "crews"';
    return failed(names === '' ? none : `Expected --crew with one of ${names}`, EXIT_CODES.usage, world);
  }
  const [verb = 'ps', ...rest] = call.words;
  const { channel } = crew;
  if (verb === 'd' || verb === 'dashboard') return dashboard(channel, call.json, world);
  return runCtl({ line: ['crew', verb, ...rest].join(' '), channel, json: call.json }, world);
}

async function dashboard(channel: string, json: boolean, world: CrewWorld): Promise<ExitCode> {
  const line = 'crew dashboard';
  if (json || !world.isTerminal) return runCtl({ line, channel, json }, world);
  while (!world.signal.aborted) {
    const answer = await askBot({ line, channel, json: false }, world);
    if (!answer.reached) return notRunning({ json }, world, answer.why);
    world.out(`${CLEAR}${harmless(answer.text)}\n`);
    await world.sleep(REDRAW_MS);
  }
  return EXIT_CODES.ok;
}
