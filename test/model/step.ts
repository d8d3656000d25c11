import type { Command } from '../../src/turns/floor/command.ts';
import type { Effect } from '../../src/turns/floor/react.ts';
import type { Fact } from '../../src/turns/floor/fact.ts';
import type { Floor } from '../../src/turns/floor/floor.ts';
import type { AgentId } from '../../src/turns/floor/settings.ts';
import type { Instant } from '../../src/lib/time.ts';

/** An accepted command: the floor before and after it, its facts, and its effects. */
export type Step = {
  readonly command: Command;
  readonly at: Instant;
  readonly before: Floor;
  readonly after: Floor;
  readonly facts: readonly Fact[];
  readonly effects: readonly Effect[];
};

type OfType<T extends { readonly type: string }, K extends T['type']> = Extract<T, { readonly type: K }>;

/** The facts, or the effects, of one type. */
export function of<T extends { readonly type: string }, K extends T['type']>(
  all: readonly T[],
  type: K,
): readonly OfType<T, K>[] {
  return all.filter((one): one is OfType<T, K> => one.type === type);
}

/** The seat's state of an agent. */
export function statusOf(floor: Floor, agent: AgentId): string {
  return floor.seats.find((seat) => seat.agent === agent)?.status ?? 'none';
}

/** Returns a command that another machine caused. Throws when this machine does not take it. */
export function takenBy<Given>(
  { name, isCommand }: { readonly name: string; readonly isCommand: (command: unknown) => command is Given },
  command: unknown,
): Given {
  if (!isCommand(command)) throw new Error(`${name} is given a command that it does not take`);
  return command;
}
