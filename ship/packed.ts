import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buildDist, stageAgent, stageConch } from './stage.ts';

/** A packed file with its sizes in kB (1,000 bytes), and the paths in it. */
export type PackedFile = {
  readonly file: string;
  readonly packedKB: number;
  readonly unpackedKB: number;
  readonly files: readonly string[];
};

/** The content and the target folder of a pack. */
export type PackPlan = {
  readonly out: string;
  readonly version: string;
  /** False uses the page and the bridge that are already in `dist`. */
  readonly rebuilds?: boolean;
};

/** Packs `conch` and `conch-agent`, in this order. The folder `out` must exist. */
export async function packAll(plan: PackPlan): Promise<readonly [PackedFile, PackedFile]> {
  const { out, version, rebuilds = true } = plan;
  if (rebuilds) buildDist();
  const stage = mkdtempSync(join(tmpdir(), 'conch-stage-'));
  try {
    await stageConch(join(stage, 'conch'), version);
    stageAgent(join(stage, 'conch-agent'), version);
    return [packFolder(join(stage, 'conch'), out), packFolder(join(stage, 'conch-agent'), out)];
  } finally {
    rmSync(stage, { recursive: true, force: true });
  }
}

/** Packs only `conch`, in the same way as `packAll`. */
export async function packConch({ out, version, rebuilds = true }: PackPlan): Promise<PackedFile> {
  if (rebuilds) buildDist();
  const stage = mkdtempSync(join(tmpdir(), 'conch-stage-'));
  try {
    await stageConch(stage, version);
    return packFolder(stage, out);
  } finally {
    rmSync(stage, { recursive: true, force: true });
  }
}

type NpmPacked = {
  readonly filename: string;
  readonly size: number;
  readonly unpackedSize: number;
  readonly files: readonly { readonly path: string }[];
};

/** Has npm pack a folder. No script of the package runs. */
function packFolder(folder: string, out: string): PackedFile {
  const args = ['pack', folder, '--json', '--ignore-scripts', '--pack-destination', out];
  const text = execFileSync('npm', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
  const packed = Object.values(JSON.parse(text) as Readonly<Record<string, NpmPacked>>)[0];
  if (packed === undefined) throw new Error(`npm packed nothing in ${folder}.`);
  return {
    file: join(out, packed.filename),
    packedKB: Math.ceil(packed.size / 1_000),
    unpackedKB: Math.ceil(packed.unpackedSize / 1_000),
    files: packed.files.map(({ path }) => path).sort(),
  };
}
