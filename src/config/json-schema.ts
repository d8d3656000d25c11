import { writeFileSync } from 'node:fs';
import { argv } from 'node:process';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { fileSchema } from './schema.ts';

/** What the code reads of a JSON Schema; the rest of it is for editors. */
export type JsonNode = {
  readonly description?: string;
  readonly default?: unknown;
  readonly const?: unknown;
  readonly properties?: Readonly<Record<string, JsonNode>>;
  /** What stands under keys of one's own. */
  readonly additionalProperties?: JsonNode | boolean;
  readonly required?: readonly string[];
  readonly items?: JsonNode;
  readonly anyOf?: readonly JsonNode[];
  readonly oneOf?: readonly JsonNode[];
};

/** The JSON Schema of `turnConfig.json`, as people write that file. */
export const configJsonSchema = (): JsonNode => (made ??= makeSchema());

/** `turnConfig.schema.json`, as it stands in the repository. */
export const jsonSchemaText = (): string =>
  `${JSON.stringify({ title: 'turnConfig.json', ...configJsonSchema() }, null, 2)}\n`;

let made: JsonNode | null = null;
const makeSchema = () => z.toJSONSchema(fileSchema, { io: 'input', target: 'draft-07' }) as JsonNode;

if (argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(new URL('../../turnConfig.schema.json', import.meta.url), jsonSchemaText());
}
