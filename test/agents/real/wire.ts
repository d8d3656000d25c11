import { createHash } from 'node:crypto';
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';

/**
 * Returns the kind of the chosen option for each permission request in a log of `tap.ts`. `cancelled`: no option was
 * chosen.
 */
export function answersIn(log: string): readonly string[] {
  const sent = messagesIn(`${log}.sent`).map((each) => answer.safeParse(each).data);
  return messagesIn(`${log}.heard`).flatMap((each) => {
    const asked = request.safeParse(each).data;
    if (asked === undefined) return [];
    const chosen = sent.find((one) => one?.id === asked.id)?.result.outcome.optionId;
    return [asked.params.options.find(({ optionId }) => optionId === chosen)?.kind ?? 'cancelled'];
  });
}

/** Returns the SHA-256 of a folder's files by path. `only`: of these paths alone. Leaves out missing files. */
export function digests(folder: string, only?: readonly string[]): ReadonlyMap<string, string> {
  const paths = only ?? readdirSync(folder, { recursive: true, encoding: 'utf8' });
  const files = paths.filter((path) => existsSync(join(folder, path)) && statSync(join(folder, path)).isFile());
  return new Map(files.map((path) => [path, digest(readFileSync(join(folder, path)))]));
}

/** Returns the paths that were added, removed or changed. */
export function changed(before: ReadonlyMap<string, string>, after: ReadonlyMap<string, string>): readonly string[] {
  const paths = [...new Set([...before.keys(), ...after.keys()])];
  return paths.filter((path) => before.get(path) !== after.get(path)).toSorted();
}

function digest(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}

function messagesIn(path: string): readonly unknown[] {
  if (!existsSync(path)) return [];
  return readFileSync(path, 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('{') && line.endsWith('}'))
    .map((line): unknown => JSON.parse(line));
}

const id = z.union([z.string(), z.number()]);
const request = z.object({
  id,
  method: z.literal('session/request_permission'),
  params: z.object({ options: z.array(z.object({ optionId: z.string(), kind: z.string() })) }),
});
const answer = z.object({ id, result: z.object({ outcome: z.object({ optionId: z.string().optional() }) }) });
