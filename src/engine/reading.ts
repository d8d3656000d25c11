import { z } from 'zod';
import { fieldsOf, mapFields, textHash } from './machine.ts';
import type { Body, ConfigTable, Reading, Schema, Upcast } from './machine.ts';

/** Stands in place of an erased text. */
export const ERASED_TEXT = '[erased]';

type Recorded<State, Fact> = { readonly checkpoint: State } | { readonly facts: readonly Fact[] };

/**
 * Parses a journal row. Throws when the row is damaged, when a newer version wrote it, or when the machine has no
 * upcaster for it.
 */
export function readRecord<State, Fact>(
  machine: Reading<State, Fact>,
  { facts, body = null, version }: { readonly facts: string; readonly body?: string | null; readonly version: number },
  table: ConfigTable,
): Recorded<State, Fact> {
  const stored: unknown = JSON.parse(facts);
  if (Array.isArray(stored)) {
    const bodies = bodiesIn(body);
    const whole = stored.map((fact: unknown) => {
      const named = mapFields(fieldsOf(machine.texts, fact), fact, (place) => textOf(place, bodies));
      return mapFields(fieldsOf(machine.configs?.facts, fact), named, (place) => configOf(place, table));
    });
    return { facts: whole.map((fact) => read(machine, 'fact', { value: fact, version }, machine.fact)) };
  }
  if (typeof stored !== 'object' || stored === null || !('checkpoint' in stored))
    throw new Error('it holds neither facts nor a checkpoint');
  return { checkpoint: readStored(machine, { value: stored.checkpoint, version }, table) };
}

/** Parses a stored state. */
export function readState<State, Fact>(
  machine: Reading<State, Fact>,
  { state, version }: { readonly state: string; readonly version: number },
  table: ConfigTable,
): State {
  return readStored(machine, { value: JSON.parse(state), version }, table);
}

/** The texts of a row with their salts; `null` for an erased text. Empty when the row has no text left. */
export function bodiesIn(body: string | null): readonly (Body | null)[] {
  return body === null ? [] : bodiesSchema.parse(JSON.parse(body));
}

/** True for a text to erase. `seq` is the number of the fact, `type` its type; `checkpoint` for a checkpoint's text. */
export type IsMeant = (text: string, type: string, seq: number) => boolean;

/** The row without the texts to erase, and these texts (`erased`); `null` when the row has no text to erase. */
export function withoutTexts(
  { texts }: Pick<Reading<unknown, unknown>, 'texts'>,
  { facts, body, seq }: { readonly facts: string; readonly body: string | null; readonly seq: number },
  isMeant: IsMeant,
): { readonly facts: string; readonly body: string | null; readonly erased: readonly string[] } | null {
  const stored: unknown = JSON.parse(facts);
  const erased: string[] = [];
  if (!Array.isArray(stored)) {
    const state = withoutStrings(Reflect.get(Object(stored), 'checkpoint'), (text) => {
      const isGone = isMeant(text, CHECKPOINT, seq);
      if (isGone) erased.push(text);
      return isGone;
    });
    const checkpoint = mapFields(texts?.[CHECKPOINT], state, withoutAll);
    return erased.length === 0 ? null : { facts: JSON.stringify({ checkpoint }), body, erased };
  }
  const bodies = [...bodiesIn(body)];
  for (const [index, fact] of stored.entries())
    mapFields(fieldsOf(texts, fact), fact, (place) => {
      const at = textPlace.safeParse(place).data?.body ?? -1;
      const [, text = null] = bodies[at] ?? [];
      if (text === null || !isMeant(text, String(fact.type), seq - stored.length + 1 + index)) return place;
      erased.push(text);
      bodies[at] = null;
      return place;
    });
  const isLeft = bodies.some((each) => each !== null);
  return erased.length === 0 ? null : { facts, body: isLeft ? JSON.stringify(bodies) : null, erased };
}

const CHECKPOINT = 'checkpoint';

function withoutAll(text: unknown): unknown {
  if (typeof text === 'string') return ERASED_TEXT;
  if (Array.isArray(text)) return [];
  return text instanceof Object ? {} : text;
}

/** A copy of a stored value with `[erased]` in place of each string for which `isGone` is true. */
export function withoutStrings(value: unknown, isGone: (text: string) => boolean): unknown {
  if (typeof value === 'string') return isGone(value) ? ERASED_TEXT : value;
  if (Array.isArray(value)) return value.map((each: unknown) => withoutStrings(each, isGone));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, withoutStrings(each, isGone)]));
}

function upcast(
  machine: { readonly name: string; readonly version: number; readonly upcast?: Upcast },
  part: keyof Upcast,
  stored: { readonly value: unknown; readonly version: number },
): unknown {
  const { value, version } = stored;
  if (version === machine.version) return value;
  const turn = machine.upcast?.[part];
  if (version < machine.version && turn !== undefined) return turn(value, version);
  const known = `version ${version} of ${machine.name}, this one knows ${machine.version}`;
  throw new Error(`a ${part} cannot be read: it is of ${known}`);
}

const bodiesSchema = z.array(z.tuple([z.string(), z.string()]).nullable());
const textPlace = z.strictObject({ body: z.int(), hash: z.string(), empty: z.enum(['[]', '{}']).exactOptional() });
const configPlace = z.strictObject({ config: z.string() });

function configOf(place: unknown, table: ConfigTable): unknown {
  const { data } = configPlace.safeParse(place);
  return data === undefined ? place : table.find(data.config);
}

function textOf(place: unknown, bodies: readonly (Body | null)[]): unknown {
  const { data } = textPlace.safeParse(place);
  if (data === undefined) return place;
  const { body, hash: known, empty } = data;
  const [salt, text] = bodies[body] ?? [];
  if (salt === undefined || text === undefined) return empty === undefined ? ERASED_TEXT : JSON.parse(empty);
  if (textHash(salt, text) !== known) throw new Error('a text is not what was written');
  return empty === undefined ? text : JSON.parse(text);
}

function readStored<State>(
  machine: Reading<State, unknown>,
  { value, version }: { readonly value: unknown; readonly version: number },
  table: ConfigTable,
): State {
  const whole = mapFields(machine.configs?.state, value, (place) => configOf(place, table));
  return read(machine, 'state', { value: whole, version }, machine.state);
}

function read<Value>(
  machine: Reading<unknown, unknown>,
  part: 'state' | 'fact',
  stored: { readonly value: unknown; readonly version: number },
  schema: Schema<Value>,
): Value {
  return schema.parse(upcast(machine, part, stored));
}
