import { PARTS } from '../src/config/parts.ts';
import project from '../package.json' with { type: 'json' };

/** The content of a `package.json` that npm packs. */
export type Manifest = Readonly<Record<string, unknown>> & { readonly name: string; readonly version: string };

const { description, license, engines } = project;

/**
 * The manifest of the package `conch`. `imported`: the packages that its program imports. Packages of optional parts
 * become optional peer dependencies, all others dependencies. Throws when the project does not depend on one of them.
 */
export function conchManifest(version: string, imported: ReadonlySet<string>): Manifest {
  const ofParts = new Set<string>(Object.values(PARTS).flatMap(({ packages }) => packages));
  const names = [...imported].sort();
  const peers = names.filter((name) => ofParts.has(name));
  return {
    name: 'conch',
    version,
    description,
    license,
    type: 'module',
    bin: { conch: 'src/conch.js' },
    files: ['src', 'dist', 'docs', 'turnConfig.schema.json', 'turnConfig.example.json', '.env.example', 'CHANGELOG.md'],
    engines,
    dependencies: Object.fromEntries(names.filter((name) => !ofParts.has(name)).map((name) => [name, pinned(name)])),
    peerDependencies: Object.fromEntries(peers.map((name) => [name, `^${pinned(name)}`])),
    peerDependenciesMeta: Object.fromEntries(peers.map((name) => [name, { optional: true }])),
  };
}

/** The manifest of the package `conch-agent`: one file without dependencies. */
export function agentManifest(version: string): Manifest {
  return {
    name: 'conch-agent',
    version,
    description: 'Connects a coding agent on this machine to a running Conch.',
    license,
    type: 'module',
    bin: { 'conch-agent': 'conch-agent.mjs' },
    files: ['conch-agent.mjs', 'licenses.md'],
    engines,
  };
}

const VERSIONS: Readonly<Record<string, string>> = project.dependencies;

/** The version that the project is tested with. */
function pinned(name: string): string {
  const found = VERSIONS[name];
  if (found === undefined)
    throw new Error(`The program imports ${name}, which is no dependency: add it to package.json.`);
  return found.replace(/^[\^~]/, '');
}
