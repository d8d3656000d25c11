import { hash } from 'node:crypto';
import type { Tool } from '@modelcontextprotocol/client';
import { canonical } from '../../engine/canonical.ts';
import { hasHidden } from '../../lib/visible.ts';
import { wildcard } from '../../rules/rule.ts';

/** A tool of a server, as rules, people and models know it. */
export type ServerTool = {
  readonly server: string;
  /** The server's name for the tool. */
  readonly name: string;
  /** The name in rules, such as `mcp__files__write_file`. */
  readonly rule: string;
  /** The name for models: at most 64 letters, digits, "_" and "-", because providers take no others. */
  readonly alias: string;
  readonly description: string;
  readonly schema: Readonly<Record<string, unknown>>;
  /** Digest of the tool's name, title, description, schemas and hints, as the server gave them. */
  readonly digest: string;
  /** The server's hints: the tool changes nothing, reaches only the server, can destroy something (the default). */
  readonly claims: { readonly readOnly: boolean; readonly closedWorld: boolean; readonly destructive: boolean };
};

/** The usable tools of a server, and why others were refused. */
export type ReadTools = { readonly tools: readonly ServerTool[]; readonly refused: readonly string[] };

/**
 * Returns the configured tools of a server's list. Refuses tools whose definition holds invisible characters. Throws
 * when two tools would have one alias.
 */
export function readTools(server: string, listed: readonly Tool[], wanted: readonly string[]): ReadTools {
  const fits = wanted.map(wildcard);
  const chosen = listed.filter(({ name }) => fits.some((fit) => fit(name)));
  const [hidden, plain] = [chosen.filter(isHidden), chosen.filter((tool) => !isHidden(tool))];
  const tools = plain.map((tool) => toolOf(server, tool));
  const aliases = new Map<string, string>();
  for (const { alias, name } of tools) {
    const other = aliases.get(alias);
    if (other !== undefined)
      throw new Error(`its tools ${shown(other)} and ${shown(name)} would have one name, ${alias}`);
    aliases.set(alias, name);
  }
  const why = 'its definition has invisible characters';
  return { tools, refused: hidden.map(({ name }) => `${shown(name)}: ${why}`) };
}

/**
 * Returns the tool for an alias of a server whose tools were not listed. Returns `null` when the alias belongs to none
 * of these servers.
 */
export function unlistedTool(servers: readonly string[], alias: string): ServerTool | null {
  const server = servers.find((id) => alias.startsWith(`${id}__`));
  return server === undefined
    ? null
    : toolOf(server, { name: alias.slice(`${server}__`.length), inputSchema: { type: 'object' } });
}

type Said = Pick<ServerTool, 'description' | 'schema' | 'claims'>;

/** Returns the differences in description, input and hints between two definitions of a tool, in words for people. */
export function differenceOf(before: Said, now: Said): string {
  const parts = [
    ['description', before.description, now.description],
    ['input', canonical(before.schema), canonical(now.schema)],
    ['claims', canonical(before.claims), canonical(now.claims)],
  ] as const;
  const changed = parts.filter(([, one, other]) => one !== other);
  // Indented: a line of a description must not look like a line of the request.
  const lines = changed.flatMap(([what, one, other]) =>
    [`${what} was: ${one}`, `${what} is: ${other}`].map((text) => text.replaceAll(/\r\n?|[\n\u2028\u2029]/g, '\n  ')),
  );
  return lines.length === 0 ? 'something that is not shown' : lines.join('\n');
}

/** Longest description, in UTF-16 units. Longer descriptions are cut. */
const LONGEST_DESCRIPTION = 2_000;

/** Longest name that all providers take, in characters. Of a longer name `KEPT` characters stay, before a hash. */
const LONGEST_ALIAS = 64;
const KEPT = 55;

function toolOf(server: string, tool: Tool): ServerTool {
  const { name, description = '', inputSchema, outputSchema, annotations = {}, title } = tool;
  const full = `${server}__${name}`;
  return {
    server,
    name,
    rule: `mcp__${full}`,
    alias: aliasOf(full),
    description:
      description.length > LONGEST_DESCRIPTION ? `${description.slice(0, LONGEST_DESCRIPTION)}…` : description,
    schema: { ...inputSchema, type: 'object' },
    digest: hash('sha256', canonical(asJson({ name, title, description, inputSchema, outputSchema, annotations }))),
    claims: {
      readOnly: annotations.readOnlyHint === true,
      closedWorld: annotations.openWorldHint === false,
      destructive: annotations.destructiveHint !== false,
    },
  };
}

function aliasOf(full: string): string {
  const plain = full.replaceAll(/[^A-Za-z0-9_-]/g, '-');
  return plain.length <= LONGEST_ALIAS ? plain : `${plain.slice(0, KEPT)}_${hash('sha256', full).slice(0, 8)}`;
}

function isHidden(tool: Tool): boolean {
  return textsIn(tool).some(hasHidden);
}

function textsIn(value: unknown): readonly string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, each]) => [key, ...textsIn(each)]);
}

function asJson(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value));
}

function shown(name: string): string {
  return JSON.stringify(name.slice(0, 100));
}
