import { createHash } from 'node:crypto';
import type { Tool } from '@modelcontextprotocol/client';
import { canonical } from '../../engine/canonical.ts';
import { hasHidden } from '../../lib/visible.ts';
import { wildcard } from '../../rules/rule.ts';

/** A tool of a server, as rules, people and models know it. */
export type ServerTool = {
  readonly server: string;
  /** As its server calls it. */
  readonly name: string;
  /** As rules name it. */
  readonly rule: string;
  /** As models call it: no provider takes longer names, or others than letters, digits, "_" and "-". */
  readonly alias: string;
  readonly description: string;
  readonly schema: Readonly<Record<string, unknown>>;
  /** Of all that its server says of it. */
  readonly digest: string;
  /** What its server claims: that it changes nothing, has to do with the server alone, may destroy something. */
  readonly claims: { readonly readOnly: boolean; readonly closedWorld: boolean; readonly destructive: boolean };
};

/** The tools of a server that can be used, and why others cannot. */
export type ReadTools = { readonly tools: readonly ServerTool[]; readonly refused: readonly string[] };

/**
 * The tools of a list that a server sent: those that the configuration wants, without those whose definition holds characters
 * that nobody sees. Throws when two of them would have one name.
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
  const why = 'its definition holds characters that nobody sees';
  return { tools, refused: hidden.map(({ name }) => `${shown(name)}: ${why}`) };
}

/** A tool of one of these servers, which nobody has asked what they have, by the name that a model calls it; `null`: of none of them. */
export function unlistedTool(servers: readonly string[], alias: string): ServerTool | null {
  const server = servers.find((id) => alias.startsWith(`${id}__`));
  return server === undefined
    ? null
    : toolOf(server, { name: alias.slice(`${server}__`.length), inputSchema: { type: 'object' } });
}

type Said = Pick<ServerTool, 'description' | 'schema' | 'claims'>;

/** What differs between two definitions of a tool, for people. */
export function differenceOf(before: Said, now: Said): string {
  const parts = [
    ['description', before.description, now.description],
    ['input', canonical(before.schema), canonical(now.schema)],
    ['claims', canonical(before.claims), canonical(now.claims)],
  ] as const;
  const changed = parts.filter(([, one, other]) => one !== other);
  const lines = changed.map(([what, one, other]) => `${what} was: ${one}\n${what} is: ${other}`);
  return lines.length === 0 ? 'something that is not shown' : lines.join('\n');
}

/** Longer texts of a server about a tool are cut, in UTF-16 units. */
const LONGEST_DESCRIPTION = 2_000;

/** What providers take as a name, in characters; and how much of a longer one stays. */
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
    digest: sha256(canonical(asJson({ name, title, description, inputSchema, outputSchema, annotations }))),
    claims: {
      readOnly: annotations.readOnlyHint === true,
      closedWorld: annotations.openWorldHint === false,
      destructive: annotations.destructiveHint !== false,
    },
  };
}

function aliasOf(full: string): string {
  const plain = full.replaceAll(/[^A-Za-z0-9_-]/g, '-');
  return plain.length <= LONGEST_ALIAS ? plain : `${plain.slice(0, KEPT)}_${sha256(full).slice(0, 8)}`;
}

function isHidden(tool: Tool): boolean {
  return textsIn(tool).some(hasHidden);
}

function textsIn(value: unknown): readonly string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, each]) => [key, ...textsIn(each)]);
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

function asJson(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value));
}

function shown(name: string): string {
  return JSON.stringify(name.slice(0, 100));
}
