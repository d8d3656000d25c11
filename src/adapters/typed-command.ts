import { isCommandLine } from '../turns/addressing.ts';
import { COMMAND_WORDS } from '../turns/operators/table.ts';

/** The rule under which a message that was a command is recorded: agents do not get it. */
export const COMMAND_RULE = 'an operator command';

/** The command line that a message is ("!floor skip", "/stop"), or `null` for an ordinary message ("!nice"). */
export function typedCommand(text: string): string | null {
  const line = text.trim();
  return isCommandLine(line, COMMAND_WORDS) ? line : null;
}
