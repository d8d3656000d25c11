import { lead } from '../../src/engine/shared/lead.ts';
import { SqliteStore } from '../../src/engine/sqlite/sqlite.ts';
import { loadPlanted } from '../model/planted-source.ts';
import { wrongInLead } from './leading.ts';
import type { Leading } from './leading.ts';
import type { LogBug } from './memory-log.ts';

const MODULES = ['engine/shared/lead.ts', 'engine/sqlite/sqlite.ts'];
const MOST_SEEDS = 60;
const HEARTBEAT = 'engine/shared/heartbeat.ts';
const PLANTED = {
  'may act as long as it likes after a beat': {
    file: HEARTBEAT,
    find: 'const LEASE = 0.75;',
    replace: 'const LEASE = 3;',
  },
  'counts its time to act from the answer to a beat': {
    file: HEARTBEAT,
    find: 'this.#last = at;',
    replace: 'this.#last = answeredAt;',
  },
  'declares others dead after it was cut off itself': {
    file: HEARTBEAT,
    find: 'if (this.#last === null || answeredAt - this.#last > LIMITS.freshMs) this.#since = answeredAt;',
    replace: 'this.#since ??= answeredAt;',
  },
  'does not doubt what a dead one had in flight': {
    file: 'engine/sqlite/outbox.ts',
    find: "if (which === 'all' || (which === 'first' && index === 0) || entry.inFlight) entry.uncertain = true;",
    replace: '',
  },
  'shows what the log has not taken': {
    file: 'engine/sqlite/keeper.ts',
    find: 'if (!this.#replaced.has(key)) this.#replaced.set(key, head);',
    replace: '',
  },
  'goes on when the log refuses its rows': {
    file: 'engine/shared/log-disk.ts',
    find: 'if (!isWritten)',
    replace: 'if (isWritten === null)',
  },
  'does not wait for the log': {
    file: 'engine/shared/log-disk.ts',
    find: 'return this.#send(rows).then(() => () => {',
    replace: 'this.#send(rows).catch(() => undefined);\n    return Promise.resolve().then(() => () => {',
  },
  'keeps rows in its copy that the log has not taken': {
    file: 'engine/sqlite/commits.ts',
    find: "this.#db.exec('ROLLBACK');\n        return this.#wait(",
    replace: "this.#db.exec('COMMIT');\n        return this.#wait(",
  },
  'counts its silence from the answer to a beat': {
    file: HEARTBEAT,
    find: 'Math.max(0, at + DEAD_MS - answeredAt)',
    replace: 'DEAD_MS',
  },
  'goes on when it is cut off alone': {
    file: 'engine/shared/lead.ts',
    find: "onSilent: () => state === 'leads' && over(new StoreError('unreached', sentence('unreached', '', SILENT))),",
    replace: 'onSilent: () => undefined,',
  },
  'takes over nothing': {
    file: 'engine/sqlite/outbox.ts',
    find: 'for (const stored of this.#sql.open.iterate()) this.#queue(entryOf(stored));',
    replace: '',
  },
} as const;
const PLANTED_IN_LOG = [
  'no-fence',
  'written-twice',
  'two-leaders',
  'late-burial',
  'early-forgetting',
] as const satisfies readonly LogBug[];

async function isCaught(code: Leading, bug: LogBug | null = null): Promise<boolean> {
  for (let seed = 1; seed <= MOST_SEEDS; seed += 1) if ((await wrongInLead(seed, code, bug)).length > 0) return true;
  return false;
}

/** Tries each planted bug. Prints JSON: the number of bugs, and the names of those that no search found. */
const unseen: string[] = [];
for (const [name, edit] of Object.entries(PLANTED))
  if (!(await isCaught(await loadPlanted<Leading>([edit], ...MODULES)))) unseen.push(name);
for (const bug of PLANTED_IN_LOG) if (!(await isCaught({ lead, SqliteStore }, bug))) unseen.push(bug);
const planted = Object.keys(PLANTED).length + PLANTED_IN_LOG.length;
process.stdout.write(`${JSON.stringify({ planted, unseen })}\n`);
