import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { agentManifest, conchManifest } from './manifest.ts';
import type { Manifest } from './manifest.ts';
import { buildProgram, launcherText } from './program.ts';

/** The folder of the project. */
export const ROOT = fileURLToPath(new URL('..', import.meta.url));

/** Builds the page and the bridge for agents on other machines into `dist`. */
export function buildDist(): void {
  for (const config of ['src/adapters/page/vite.config.ts', 'src/agents/bridge/one-file.ts'])
    run('vite', ['build', '--config', config, '--logLevel', 'warn']);
}

/** Writes the folder from which npm packs `conch`: the compiled program, the built page, the docs. */
export async function stageConch(folder: string, version: string): Promise<void> {
  begin(folder);
  await buildProgram(join(folder, 'src'));
  writeFileSync(join(folder, 'src/conch.js'), launcherText());
  for (const name of readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' }))
    if (extname(name) === '.sql') copy(join('src', name), folder);
  copy('dist/console', folder);
  for (const name of readdirSync(join(ROOT, 'docs'))) if (extname(name) === '.md') copy(join('docs', name), folder);
  for (const name of [...TEXTS, 'CHANGELOG.md', 'turnConfig.schema.json', 'turnConfig.example.json', '.env.example'])
    copy(name, folder);
  writeManifest(folder, conchManifest(version, importedBy(join(folder, 'src'))));
}

/** Writes the folder from which npm packs `conch-agent`: the bridge as one file. */
export function stageAgent(folder: string, version: string): void {
  begin(folder);
  for (const name of ['conch-agent.mjs', 'licenses.md']) cpSync(join(ROOT, 'dist/agent', name), join(folder, name));
  copy('LICENSE', folder);
  writeFileSync(join(folder, 'README.md'), AGENT_README);
  writeManifest(folder, agentManifest(version));
}

/** The packages that the JavaScript files of a folder import, by name. */
export function importedBy(folder: string): ReadonlySet<string> {
  const names = new Set<string>();
  for (const file of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (extname(file) !== '.js') continue;
    for (const [, from = ''] of readFileSync(join(folder, file), 'utf8').matchAll(IMPORTS)) {
      const name = from.startsWith('@') ? from.split('/', 2).join('/') : (from.split('/', 1)[0] ?? from);
      if (!isBuiltin(name)) names.add(name);
    }
  }
  return names;
}

/** Matches each import, export and `require` of a package in compiled JavaScript, and captures the name of the package. */
const IMPORTS = /(?:^import |^(?:import|export|\}).* from |\b(?:import|require)\()['"]([^.'"][^'"]*)['"]/gm;
const TEXTS = ['README.md', 'LICENSE'] as const;

const AGENT_README = `# conch-agent

Connects a coding agent on this machine to a Conch that runs on another one. It is one file and needs Node 22.18 or newer.

\`\`\`sh
npx conch-agent --help
\`\`\`

The page docs/agents.md of Conch says how to make a token and which options there are.
`;

function begin(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
}

function copy(path: string, folder: string): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  cpSync(join(ROOT, path), join(folder, path), { recursive: true });
}

function writeManifest(folder: string, manifest: Manifest): void {
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
}

function run(program: string, args: readonly string[]): void {
  execFileSync(join(ROOT, 'node_modules/.bin', program), args, { cwd: ROOT, stdio: ['ignore', 'inherit', 'inherit'] });
}
