import { existsSync, mkdirSync, readFileSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';

/** The environment variable with the folder in which an agent's processes keep their prompts. */
export const WITNESS_DIR = 'WITNESS_DIR';

/** Keeps a prompt. Call the returned function when the answer is complete, before the process ends. */
export function keepPrompt(prompt: string): () => void {
  const folder = process.env[WITNESS_DIR];
  if (folder === undefined) return () => {};
  mkdirSync(folder, { recursive: true });
  const file = join(folder, randomUUID());
  writeFileSync(`${file}.open`, prompt);
  return () => renameSync(`${file}.open`, `${file}.done`);
}

/** The same as a shell script, for many processes in a short time: `sh -c WITNESS sh <folder> <seconds>`. */
export const WITNESS = `
file=$1/$$-$(cat /proc/sys/kernel/random/uuid)
cat > "$file.open"
printf 'I have read it'
sleep "$2"
printf ', all of it: %s.' "$$"
mv "$file.open" "$file.done"
`;

/** The prompts of one agent's completed generations. */
export function completedPrompts(folder: string): readonly string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((name) => name.endsWith('.done'))
    .map((name) => readFileSync(join(folder, name), 'utf8'));
}
