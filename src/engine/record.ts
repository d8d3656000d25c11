import type { Machine, Schema } from './machine.ts';
import { upcast } from './machine.ts';

/** What of a machine reads what is stored. */
export type Reading<State, Fact> = Pick<Machine<State, never, Fact, never>, 'name' | 'version' | 'state' | 'fact'> &
  Pick<Machine<State, never, Fact, never>, 'upcast'>;

/** A row's facts, or the state with which a chain begins anew. */
export type Recorded<State, Fact> = { readonly checkpoint: State } | { readonly facts: readonly Fact[] };

/** Facts as they are stored. */
export function recordOf(facts: readonly unknown[]): string {
  return JSON.stringify(facts);
}

/** Reads what a row holds; throws when it is not what this version or an earlier one stored. */
export function readRecord<State, Fact>(
  machine: Reading<State, Fact>,
  { facts, version }: { readonly facts: string; readonly version: number },
): Recorded<State, Fact> {
  const stored: unknown = JSON.parse(facts);
  if (Array.isArray(stored)) {
    return { facts: stored.map((fact) => read(machine, 'fact', { value: fact, version }, machine.fact)) };
  }
  if (typeof stored !== 'object' || stored === null || !('checkpoint' in stored))
    throw new Error('it holds neither facts nor a checkpoint');
  return { checkpoint: read(machine, 'state', { value: stored.checkpoint, version }, machine.state) };
}

/** Reads a stored state. */
export function readState<State, Fact>(
  machine: Reading<State, Fact>,
  { state, version }: { readonly state: string; readonly version: number },
): State {
  return read(machine, 'state', { value: JSON.parse(state), version }, machine.state);
}

function read<Value>(
  machine: Reading<unknown, unknown>,
  part: 'state' | 'fact',
  stored: { readonly value: unknown; readonly version: number },
  schema: Schema<Value>,
): Value {
  return schema.parse(upcast(machine, part, stored));
}
