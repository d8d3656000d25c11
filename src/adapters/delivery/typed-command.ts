import { z } from 'zod';
import { isCommandLine } from '../../turns/text/addressing.ts';
import type { ChannelId } from '../../turns/floor/settings.ts';
import { COMMAND_WORDS } from '../../turns/commands/command-table.ts';
import type { Memory } from '../port.ts';

/** The rule under which a message that was a command is recorded: agents do not get it. */
export const COMMAND_RULE = 'an operator command';

/** The command line that a message is ("!floor skip", "/stop"), or `null` for an ordinary message ("!nice"). */
export function typedCommand(text: string): string | null {
  const line = text.trim();
  return isCommandLine(line, COMMAND_WORDS) ? line : null;
}

/** Whether a message was seen for the first time: resolves with `true` once for each, over restarts too, when that is durable. */
export type FirstTime = (channel: ChannelId, message: string) => Promise<boolean>;

const KEPT = 20;
const keptSchema = z.array(z.string());

/** Remembers the last commands of each channel, under `typed:<channel>`, so that none runs twice. */
export function createFirstTime(memory: Memory): FirstTime {
  const known = new Map<ChannelId, readonly string[]>();
  return async (channel, message) => {
    const key = `typed:${channel}`;
    const before = known.get(channel) ?? keptIn(memory.get(key));
    if (before.includes(message)) return false;
    const next = [...before, message].slice(-KEPT);
    known.set(channel, next);
    await memory.set(key, JSON.stringify(next));
    return true;
  };
}

function keptIn(kept: string | null): readonly string[] {
  try {
    const parsed = keptSchema.safeParse(JSON.parse(kept ?? '[]'));
    return parsed.success ? parsed.data : [];
  } catch {
    return [];
  }
}
