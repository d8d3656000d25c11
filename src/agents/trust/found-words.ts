import { visible } from '../../lib/visible.ts';
import type { FilePower } from './repository-files.ts';
import type { FolderScan, FoundFile } from './folder-scan.ts';

/** What each power means to whoever decides. */
const POWERS: Readonly<Record<FilePower, string>> = {
  run: 'run programs',
  load: 'load code or tool servers',
  redirect: 'send requests and keys to another host',
  allow: 'free the agent from asking',
};

/** The names of some files, the first few in full: ".claude/settings.json, opencode.json and 3 more". */
export function namesOf(files: readonly FoundFile[]): string {
  const named = files.slice(0, MOST_IN_A_LINE).map(({ path }) => shown(path));
  const more = files.length - named.length;
  return `${named.join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

/**
 * The files of a folder for whoever decides: their names, what they can do, and how they begin. Nothing of it is hidden;
 * `clean` redacts secrets. A long text is cut, with its whole size said.
 */
export function foundDetail({ files }: Pick<FolderScan, 'files'>, clean: (text: string) => string): string {
  const listed = files.slice(0, MOST_LISTED).map((file) => `${headOf(file)}\n  ${powersOf(file)}`);
  const more = files.length - listed.length;
  let left = MOST_SHOWN;
  const contents = files.slice(0, MOST_LISTED).flatMap((file) => {
    const text = cut(file, clean, Math.min(left, MOST_OF_ONE));
    left -= text?.length ?? 0;
    return text === null ? [] : [`=== ${headOf(file)}\n${text}`];
  });
  const unseen = more > 0 ? [`… and ${more} more files, not listed here`] : [];
  return [...listed, ...unseen, ...contents].join('\n');
}

function headOf({ path, size, remark }: FoundFile): string {
  const bytes = size === null ? [] : [`${size.toLocaleString('en-US')} bytes`];
  const facts = [...bytes, ...(remark === null ? [] : [shown(remark)])];
  return `${shown(path)}${facts.length === 0 ? '' : ` (${facts.join(', ')})`}`;
}

function powersOf({ can, note }: FoundFile): string {
  return `can ${can.map((power) => POWERS[power]).join(', ')}: ${note}`;
}

/** The beginning of a text; `null`: nothing of it can be shown. */
function cut({ text, size }: FoundFile, clean: (text: string) => string, most: number): string | null {
  if (text === null || most <= 0) return null;
  const whole = visible(clean(text.replaceAll('\r\n', '\n')));
  if (whole.length <= most && Buffer.byteLength(text) >= (size ?? 0)) return whole;
  const beginning = whole.slice(0, most).toWellFormed();
  return `${beginning}\n[cut here: the first ${beginning.length} characters of ${(size ?? 0).toLocaleString('en-US')} bytes]`;
}

/** A name on one line, cut where it is long. */
function shown(name: string): string {
  const plain = visible(name).replaceAll(/\s+/g, ' ');
  return plain.length > MOST_NAME ? `${plain.slice(0, MOST_NAME)}…` : plain;
}

const MOST_IN_A_LINE = 3;
const MOST_LISTED = 20;
const MOST_NAME = 160;
const MOST_OF_ONE = 2_000;
const MOST_SHOWN = 5_000;
