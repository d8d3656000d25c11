import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';

export default defineConfig({
  root: pathOf('.'),
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: { outDir: pathOf('../../../../dist/console'), emptyOutDir: true, target: 'es2023' },
});

function pathOf(path: string): string {
  return fileURLToPath(new URL(path, import.meta.url));
}
