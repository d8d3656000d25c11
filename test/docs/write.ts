import { writeFileSync } from 'node:fs';
import { filled } from './blocks.ts';
import { documents } from './documents.ts';

// Writes every generated block of README.md and docs/*.md anew: node test/docs/write.ts
for (const { name, path, text } of documents()) {
  const fresh = filled(text);
  if (fresh === text) continue;
  writeFileSync(path, fresh);
  console.log(`${name} was written anew`);
}
