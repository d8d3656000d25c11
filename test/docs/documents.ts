import { readFileSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** The folder of the project, with a slash at its end. */
export const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/** A document of the project. `name`: its path in the project. */
export type Document = { readonly name: string; readonly path: string; readonly text: string };

/** README.md, CONTRIBUTING.md, SECURITY.md and every Markdown file of docs. */
export function documents(): readonly Document[] {
  const pages = readdirSync(`${ROOT}docs`)
    .filter((file) => file.endsWith('.md'))
    .sort();
  return ['README.md', 'CONTRIBUTING.md', 'SECURITY.md', ...pages.map((file) => `docs/${file}`)].map((name) => {
    const path = `${ROOT}${name}`;
    return { name, path, text: readFileSync(path, 'utf8') };
  });
}
