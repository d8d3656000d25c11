import { isDeepStrictEqual } from 'node:util';
import { readFileSync, writeFileSync } from 'node:fs';
import { jsonSchemaText } from '../../src/config/schema.ts';
import { filled } from './blocks.ts';
import { documents } from './documents.ts';

// Writes turnConfig.schema.json and every generated block of README.md and docs/*.md: node test/docs/write.ts
for (const { name, path, text } of documents()) {
  const fresh = filled(text);
  if (fresh === text) continue;
  writeFileSync(path, fresh);
  console.log(`${name} was written anew`);
}

const schema = new URL('../../turnConfig.schema.json', import.meta.url);
if (!isDeepStrictEqual(JSON.parse(readFileSync(schema, 'utf8')), JSON.parse(jsonSchemaText()))) {
  writeFileSync(schema, jsonSchemaText());
  console.log('turnConfig.schema.json was written anew: npm run format');
}
