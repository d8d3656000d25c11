import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A folder for one session's own files, which only this user can read. */
type PrivateFolder = {
  readonly path: string;
  /** Writes texts, by the names of their files. */
  write(files: Readonly<Record<string, string>>): void;
  /** Takes it away with all that is in it. */
  remove(): void;
};

/** Makes one among the machine's temporary files, never in the folder that an agent works in. */
export function openPrivateFolder(): PrivateFolder {
  const path = mkdtempSync(join(tmpdir(), 'conch-agent-'));
  return {
    path,
    write(files) {
      for (const [name, text] of Object.entries(files)) writeFileSync(join(path, name), text, { mode: 0o600 });
    },
    remove: () => rmSync(path, { recursive: true, force: true }),
  };
}
