import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';

/** Builds `conch-agent` as one file that needs only Node, to be copied to the machine of an agent. */
export default defineConfig({
  build: {
    ssr: fileURLToPath(new URL('../../conch-agent.js', import.meta.url)),
    outDir: fileURLToPath(new URL('../../../dist/agent', import.meta.url)),
    emptyOutDir: true,
    target: 'es2023',
    license: { fileName: 'licenses.md' },
    rolldownOptions: { output: { entryFileNames: 'conch-agent.mjs', codeSplitting: false } },
  },
  ssr: { noExternal: true },
});
