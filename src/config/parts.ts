import { conchCommand, installCommand, readManifest } from '../lib/installation.ts';
import type { Tell } from './error.ts';
import type { World } from './world.ts';

/** The parts of Conch that need further packages. The package `conch` does not bring these packages. */
export const PARTS = {
  discord: { label: 'Discord', packages: ['discord.js', '@discordjs/ws'] },
  slack: { label: 'Slack', packages: ['@slack/bolt', '@slack/socket-mode', '@slack/web-api'] },
  models: {
    label: 'an agent of the kind "llm"',
    packages: ['ai', '@ai-sdk/anthropic', '@ai-sdk/openai', '@ai-sdk/openai-compatible'],
  },
  agents: { label: 'an agent of the kinds "acp" and "remote"', packages: ['@agentclientprotocol/sdk'] },
  postgres: { label: 'a store in PostgreSQL', packages: ['pg'] },
  github: { label: 'GitHub', packages: ['@octokit/core'] },
} as const;

/** The name of a part. */
export type PartName = keyof typeof PARTS;

const PART_NAMES = Object.keys(PARTS) as readonly PartName[];

type NeededPart = { readonly part: PartName; readonly path: readonly PropertyKey[] };

type Wanting = {
  readonly agents?: readonly { readonly backend: { readonly kind: string } }[];
  readonly channels?: readonly { readonly id: string }[];
  readonly crews: readonly {
    readonly backend: { readonly kind: string };
    readonly tickets: { readonly kind: string };
    readonly merge: string;
  }[];
  readonly store?: unknown;
};

/** Returns the parts that a configuration needs, each once. */
export function neededParts({ agents = [], channels = [], crews, store }: Wanting): readonly NeededPart[] {
  const needs = [
    ...channels.map(({ id }, index) => ({ part: PLATFORMS[id.split(':')[0] ?? ''], path: ['channels', index, 'id'] })),
    ...agents.map(({ backend }, index) => ({ part: BACKENDS[backend.kind], path: ['agents', index, 'backend'] })),
    ...crews.flatMap(({ backend, tickets, merge }, index) => [
      { part: BACKENDS[backend.kind], path: ['crews', index, 'backend'] },
      ...(tickets.kind === 'github' || merge === 'pr' ? [{ part: 'github', path: ['crews', index] } as const] : []),
    ]),
    ...(store === undefined ? [] : [{ part: 'postgres', path: ['store'] } as const]),
  ];
  return PART_NAMES.flatMap((part) => {
    const first = needs.find((each) => each.part === part);
    return first === undefined ? [] : [{ part, path: first.path }];
  });
}

const PLATFORMS: Readonly<Record<string, PartName>> = { discord: 'discord', slack: 'slack' };
const BACKENDS: Readonly<Record<string, PartName>> = { llm: 'models', acp: 'agents', remote: 'agents' };

/** Returns the packages of a part that are not installed. */
export function missingPackages(part: PartName, isInstalled: (name: string) => boolean): readonly string[] {
  return PARTS[part].packages.filter((name) => !isInstalled(name));
}

/**
 * Checks that the packages of all configured parts are installed. Checks nothing when `machine` cannot look for
 * packages.
 */
export function checkParts(file: Wanting, { machine }: Pick<World, 'machine'>, tell: Tell): void {
  const { isInstalled } = machine ?? {};
  if (isInstalled === undefined) return;
  for (const { part, path } of neededParts(file)) {
    const missing = missingPackages(part, isInstalled);
    if (missing.length > 0) tell(path, missingText(part, missing));
  }
}

/** Says that packages of a part are missing, and the command that installs them. */
export function missingText(part: PartName, missing: readonly string[]): string {
  const { label } = PARTS[part];
  const verb = missing.length === 1 ? 'which is not installed' : 'which are not installed';
  return `${label} needs ${missing.join(', ')}, ${verb}. Run: ${installPartCommand([part])}`;
}

/** Returns the command that installs the packages of parts, in the major versions that Conch is tested with. */
export function installPartCommand(parts: readonly PartName[]): string {
  const manifest = readManifest();
  const packages = parts.flatMap((part) => PARTS[part].packages.map((name) => withMajor(name, manifest)));
  return installCommand(packages);
}

function withMajor(name: string, manifest: string): string {
  const major = new RegExp(`"${name}": "\\^?(\\d+)`).exec(manifest)?.[1];
  return major === undefined ? name : `${name}@${major}`;
}

/** Says what to install when an error means that a package of a part is missing; `null` for any other error. */
export function missingPartText(error: unknown): string | null {
  if (!(error instanceof Error) || !('code' in error) || error.code !== 'ERR_MODULE_NOT_FOUND') return null;
  const name = /Cannot find package '([^']+)'/.exec(error.message)?.[1] ?? '';
  const part = PART_NAMES.find((each) => PARTS[each].packages.some((packageName) => packageName === name));
  return part === undefined ? null : `${missingText(part, [name])} Then: ${conchCommand('doctor')}`;
}
