import type { Database, Statement } from 'better-sqlite3';

/** Counts the queries of a database, by their texts. */
export function watch(db: Database) {
  const asked = new Map<string, number>();
  const prepare = db.prepare.bind(db);
  const watched = (statement: Statement, sql: string): Statement =>
    new Proxy(statement, {
      get(target, name) {
        const found: unknown = Reflect.get(target, name, target);
        if (typeof found !== 'function') return found;
        return (...given: unknown[]) => {
          if (['run', 'get', 'all', 'iterate'].includes(String(name))) asked.set(sql, (asked.get(sql) ?? 0) + 1);
          const answer: unknown = Reflect.apply(found, target, given);
          return answer === target ? watched(target, sql) : answer;
        };
      },
    });
  Object.assign(db, { prepare: (sql: string) => watched(prepare(sql), sql) });
  /** The steps of the query plan of a statement, in SQLite's words. */
  const plan = (sql: string): readonly string[] =>
    prepare<unknown[], { detail: string }>(`EXPLAIN QUERY PLAN ${sql.replaceAll(/@\w+|\?/gu, '1')}`)
      .all()
      .map(({ detail }) => `${detail}: ${sql}`);
  return { asked, plan };
}
