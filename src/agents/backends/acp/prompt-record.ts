import type { Line } from '../../../turns/view.ts';
import { injectedPrompt } from '../../prompt/prompt.ts';
import type { Report, TurnPrompt } from '../backend.ts';
import { withSystem } from './acp-generation.ts';

/**
 * Records the text and the injected messages of one prompt. An agent whose process or connection was lost gets the same
 * prompt again with this record.
 */
export class PromptRecord {
  readonly report: Report;
  #reported = '';
  #injected: readonly Line[] = [];
  #asked: Promise<unknown> = Promise.resolve();

  constructor(report: Report) {
    this.report = {
      ...report,
      text: (chunk) => {
        this.#reported += chunk;
        report.text(chunk);
      },
      gate: { ...report.gate, ask: (call, stopped) => this.#track(report.gate.ask(call, stopped)) },
    };
  }

  /** Records a message that the running generation got. */
  injected(message: Line): void {
    this.#injected = [...this.#injected, message];
  }

  /**
   * Called when the process or connection was lost during the generation. Ends the current message and reports that no
   * call is open. Resolves when no request for approval is open.
   */
  async breakOff(): Promise<void> {
    this.report.flush();
    this.report.work(0, 'host');
    await this.#asked;
  }

  /**
   * Returns the prompt to send again, with the last 8,000 characters of the reported text and the injected messages.
   * `fresh`: the agent has forgotten the session, so the prompt repeats the system prompt.
   */
  repeated(turn: TurnPrompt, fresh: boolean): TurnPrompt {
    const part = this.#reported.trim().slice(-MOST_HEARD);
    const arrived =
      part === ''
        ? 'Nothing of your answer had arrived: answer now.'
        : `This much of your answer had arrived and stands in the channel. Do not repeat it; go on from there:\n${part}`;
    const news = this.#injected.map((line) => injectedPrompt(line, false));
    const lost = `The connection to you was lost in the middle of this turn. ${arrived}`;
    const text = [fresh ? withSystem(turn, turn.text) : turn.text, ...news, lost].join('\n\n');
    return { ...turn, text };
  }

  #track<T>(asked: Promise<T>): Promise<T> {
    this.#asked = Promise.allSettled([this.#asked, asked]);
    return asked;
  }
}

const MOST_HEARD = 8_000;
