import { readFileSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'vite';
import type { Plugin } from 'vite';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const SOURCE = join(ROOT, 'src');

/** Programs that Conch starts as separate processes. Each keeps its path in the source. */
const PROGRAMS = ['lib/git-runner', 'agents/process/sandbox-relay', 'agents/backends/scripted/scratch-server'] as const;

/**
 * Compiles the program into the folder `src` of a package, joined into few files: Node loads hundreds of small files
 * slowly. Modules that are imported on demand stay in separate files. Packages are not joined.
 */
export async function buildProgram(to: string): Promise<void> {
  const entries = ['main', ...PROGRAMS].map((name) => [name, join(SOURCE, `${name}.ts`)]);
  await build({
    configFile: false,
    root: ROOT,
    logLevel: 'warn',
    plugins: [placesKept()],
    build: {
      ssr: true,
      outDir: to,
      emptyOutDir: true,
      target: 'node22',
      minify: false,
      rolldownOptions: {
        input: Object.fromEntries(entries),
        output: { entryFileNames: '[name].js', chunkFileNames: '[name]-[hash].js' },
      },
    },
  });
}

/**
 * Returns the text of the package's `src/conch.js`, which the command `conch` runs. The text equals the repository's
 * `src/conch.js`, except that it imports the compiled `main.js`.
 */
export function launcherText(): string {
  return readFileSync(join(SOURCE, 'conch.js'), 'utf8').replace("'./main.ts'", "'./main.js'");
}

/** Makes `import.meta.url` give a file's path in the source: paths to other files start there. */
function placesKept(): Plugin {
  return {
    name: 'places-kept',
    enforce: 'pre',
    transform(code, id) {
      if (!id.startsWith(SOURCE) || !code.includes('import.meta.url')) return null;
      const place = relative(SOURCE, id).split(sep).join('/').replace(/\.ts$/, '.js');
      const url = `new URL(${JSON.stringify(`./${place}`)}, import.meta.url).href`;
      return { code: code.replaceAll('import.meta.url', `(${url})`), map: null };
    },
  };
}
