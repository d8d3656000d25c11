import { Database } from './group-commit.ts';

const counted = { statements: 0, commits: 0 };
const memory = new Database(':memory:');
const made = Object.getPrototypeOf(memory.prepare('SELECT 1')) as Record<string, (...args: unknown[]) => unknown>;
for (const name of ['run', 'get', 'all', 'iterate']) {
  const own = made[name];
  if (own === undefined) throw new Error(`impossible: statements have no ${name}`);
  made[name] = function count(this: { readonly source: string }, ...args: unknown[]) {
    if (this.source.startsWith('COMMIT')) counted.commits += 1;
    else if (!this.source.startsWith('BEGIN')) counted.statements += 1;
    return own.apply(this, args);
  };
}
memory.close();

/** Statements and commits of this process since this module was loaded. BEGIN and COMMIT do not count as statements. */
export function countedSoFar(): Readonly<typeof counted> {
  return { ...counted };
}
