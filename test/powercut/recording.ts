import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** What a program did to the files of one folder, and its answers, in order. */
export type DiskEvent =
  | { readonly did: 'create' | 'sync' | 'unlink'; readonly file: string }
  | { readonly did: 'write'; readonly file: string; readonly offset: number; readonly bytes: Buffer }
  | { readonly did: 'truncate'; readonly file: string; readonly size: number }
  | { readonly did: 'tell'; readonly line: string };

/** True when this machine can record a program's writes. */
export function canRecord(): boolean {
  return spawnSync('strace', ['-V']).status === 0;
}

const CALLS = 'openat,pwrite64,write,fdatasync,fsync,ftruncate,unlink,rename,writev,pwritev';

/** Records the writes, syncs and answers of a store's life. `told`: arguments of `life.ts`. Throws when it fails. */
export function recordLife(path: string, told: readonly string[]): readonly DiskEvent[] {
  const trace = join(dirname(path), '..', 'trace');
  const life = fileURLToPath(new URL('life.ts', import.meta.url));
  const asked = ['-f', '--seccomp-bpf', '-qq', '-y', '-xx', '-s', '1000000', '-e', `trace=${CALLS}`, '-o', trace];
  // Compiled code that Node stores is no part of the recorded life.
  const env = { ...process.env, NODE_DISABLE_COMPILE_CACHE: '1' };
  const ended = spawnSync('strace', [...asked, process.execPath, life, path, ...told], { encoding: 'utf8', env });
  if (ended.signal !== 'SIGKILL' && ended.status !== 137) throw new Error(`the life failed: ${ended.stderr}`);
  return eventsOf(readFileSync(trace, 'latin1'), dirname(path));
}

/** Reads the output of strace. A call that was interrupted in the output counts where it ended. */
function eventsOf(trace: string, folder: string): readonly DiskEvent[] {
  const begun = new Map<string, string>();
  const offsets = new Map<string, number>();
  const events: DiskEvent[] = [];
  for (const line of trace.split('\n')) {
    const [, thread = '', text = ''] = /^(\d+) +(.*)$/u.exec(line) ?? [];
    const [, first] = /^(.*) <unfinished \.\.\.>$/u.exec(text) ?? [];
    if (first !== undefined) begun.set(thread, first);
    else {
      const [, rest] = /^<\.\.\. \w+ resumed>(.*)$/u.exec(text) ?? [];
      const event = eventOf(rest === undefined ? text : `${begun.get(thread) ?? ''}${rest}`, offsets);
      if (event !== null && (event.did === 'tell' || event.file.startsWith(folder))) events.push(event);
    }
  }
  return events;
}

function eventOf(call: string, offsets: Map<string, number>): DiskEvent | null {
  const [, name = '', given = '', result = ''] = /^(\w+)\((.*)\) += (-?\d+)/u.exec(call) ?? [];
  if (name === '' || result.startsWith('-')) return null;
  const file = plain(/^\d+<([^>]*)>/u.exec(given)?.[1] ?? '');
  const bytes = Buffer.from(plain(/"([^"]*)"/u.exec(given)?.[1] ?? ''), 'latin1');
  switch (name) {
    case 'openat':
      return given.includes('O_CREAT') ? { did: 'create', file: plain(/"([^"]*)"/u.exec(given)?.[1] ?? '') } : null;
    case 'pwrite64':
      return { did: 'write', file, offset: Number(/, (\d+)$/u.exec(given)?.[1]), bytes };
    case 'write': {
      if (given.startsWith('1<')) return { did: 'tell', line: bytes.toString('utf8').trim() };
      const offset = offsets.get(file) ?? 0;
      offsets.set(file, offset + bytes.length);
      return { did: 'write', file, offset, bytes };
    }
    case 'ftruncate':
      return { did: 'truncate', file, size: Number(/, (\d+)$/u.exec(given)?.[1]) };
    case 'fdatasync':
    case 'fsync':
      return { did: 'sync', file };
    case 'unlink':
      return { did: 'unlink', file: plain(/"([^"]*)"/u.exec(given)?.[1] ?? '') };
    default:
      throw new Error(`a call is not understood: ${name}`);
  }
}

/** "\x61\x62" → "ab": one character per byte. */
function plain(escaped: string): string {
  return escaped.replaceAll(/\\x([0-9a-f]{2})/gu, (_all, hex: string) =>
    String.fromCodePoint(Number.parseInt(hex, 16)),
  );
}
