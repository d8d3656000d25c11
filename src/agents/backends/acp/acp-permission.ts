import { z } from 'zod';
import type { Choice } from '../../../turns/floor/settings.ts';
import { TOOL_KINDS } from '../../../rules/rule.ts';
import type { ToolRequest } from '../../../rules/tool-use.ts';
import { asJson, inputWords } from '../../tools/input-words.ts';
import type { CallResult, GatedCall } from '../../tools/tool-gate.ts';
import { FLOOR_TOOLS, isFloorTool } from '../../tools/floor-tools.ts';
import type { PermissionOption, ToolCall } from './acp-wire.ts';
import { OMIT_HEADERS, formatPatch, structuredPatch } from 'diff';
import type { StructuredPatch } from 'diff';

/**
 * Returns an agent's tool call for the gate. `updates`: the updates of the call and the request. `options`: the answers
 * that the agent offers. When none of them allows once, nobody can be asked.
 */
export function gatedCall(
  title: string,
  updates: readonly ToolCall[],
  options: readonly PermissionOption[],
): GatedCall {
  const detail = detailOf(title, updates, options);
  const accounts = toolRequestsOf(updates);
  const named = accounts.find(({ name }) => name !== null)?.name;
  const input = updates.findLast(({ rawInput }) => isRecord(rawInput))?.rawInput;
  return {
    id: updates[0]?.toolCallId ?? '',
    tool: named ?? accounts.find(({ kind }) => kind !== null)?.kind ?? 'other',
    input: isRecord(input) ? input : { told: detail },
    definition: null,
    repeatable: false,
    title: title.length > LONGEST_TITLE ? `${title.slice(0, LONGEST_TITLE)}…` : title,
    detail,
    accounts,
    // Without an option to allow once, the agent's call is denied even where a rule allows it.
    ...(sent('allow', options) === null ? { caution: NO_ALLOW_ONCE, unaskable: NO_ALLOW_ONCE } : { caution: null }),
  };
}

/** The outcome of a call as the agent reports it. */
export function resultOf({ status, content, rawOutput }: ToolCall): CallResult {
  const isElsewhere =
    Array.isArray(content) && content.every((block) => contentBlock.safeParse(block).data?.type === 'terminal');
  const blocks = isElsewhere && typeof rawOutput === 'string' ? [] : blocksIn(content);
  const words = blocks.map((block) => block.words).join('\n');
  const output = words === '' ? (typeof rawOutput === 'string' ? rawOutput : asJson(rawOutput ?? '')) : words;
  const code = status === 'failed' ? 'TOOL_FAILED' : null;
  return { status: code === null ? 'complete' : 'error', output, code, durationMs: null };
}

/**
 * Returns the output of a call so far, for agents that report output in pieces (Codex). `null`: the update holds no
 * piece. Drops pieces after 1,000,000 characters.
 */
export function outputSoFar(known: ToolCall | undefined, { _meta }: ToolCall): string | null {
  const piece = terminalPiece.safeParse(_meta).data?.terminal_output_delta.data;
  if (piece === undefined) return null;
  const before = typeof known?.rawOutput === 'string' ? known.rawOutput : '';
  return before.length > LONGEST_OUTPUT ? before : before + piece;
}

const terminalPiece = z.object({ terminal_output_delta: z.object({ data: z.string() }) });
const LONGEST_OUTPUT = 1_000_000;

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Returns the id of the option for a choice; `null` when the agent offers none. `allow` never takes `allow_always`,
 * because the agent stores that decision in files where nobody can revoke it. `reject` takes `reject_always` when there
 * is no `reject_once`.
 */
export function optionFor(choice: Choice, options: readonly PermissionOption[]): string | null {
  return sent(choice, options)?.optionId ?? null;
}

/**
 * Returns whether a `session/request_permission` is for a tool that Conch serves; such a request needs no approval. All
 * names that the agent itself gives the tool must be one tool of `server`. A floor tool needs a valid input. `offers`:
 * returns whether Conch runs an MCP server's tool of that name. Its input is not checked: Conch decides when the call
 * arrives. A request with another kind than `other` or `think`, with a location or with content does not count. The
 * title is ignored, because models write it.
 */
export function isForOwnTool(
  params: unknown,
  server: string,
  offers: (tool: string) => boolean = () => false,
): boolean {
  const parsed = ownCall.safeParse(params);
  if (!parsed.success) return false;
  const { name, rawInput, _meta: meta } = parsed.data.toolCall;
  const names = [meta?.claudeCode?.toolName, meta?.toolName, name].filter((each) => typeof each === 'string');
  const [tool = '', ...others] = new Set(names.map((each) => toolIn(each, server)));
  if (others.length > 0) return false;
  if (offers(tool)) return true;
  return isFloorTool(tool) && FLOOR_TOOLS[tool].input.strict().safeParse(rawInput).success;
}

/**
 * Returns an agent's call as tool requests that rules can judge: one for each update with an input or a path, else for
 * the last update. Each is repeated under all names and kinds of the call. Some agents spread one input over several
 * updates, so fields that an update lacks are taken from the others. The title is no name, because models write it.
 */
export function toolRequestsOf(updates: readonly ToolCall[]): readonly ToolRequest[] {
  const names = new Set(updates.flatMap(({ name, _meta }) => [...(name ? [name] : []), ...toolNames(_meta)]));
  const kinds = new Set(updates.flatMap(({ kind }) => TOOL_KINDS.filter((each) => each === kind)));
  // A vague call also counts as `fetch` when its title or id names the web. This only adds a kind, so a title never
  // makes a verdict milder.
  const isVague = [...kinds].every((kind) => VAGUE.has(kind));
  const isOfTheWeb =
    isVague && updates.some(({ title, toolCallId }) => OF_THE_WEB.test(`${toolCallId} ${title ?? ''}`));
  const counted = [...orNull(kinds), ...(isOfTheWeb ? (['fetch'] as const) : [])];
  const accounts = updates.map((call) => ({ input: call.rawInput, locations: pathsOf(call) }));
  const speaking = accounts.filter(({ input, locations }) => (input ?? null) !== null || locations.length > 0);
  const told = Object.assign({}, ...speaking.flatMap(({ input }) => (isRecord(input) ? [input] : [])));
  const whole = speaking.map(({ input, locations }) => ({
    input: isRecord(input) ? { ...told, ...input } : input,
    locations,
  }));
  return (whole.length > 0 ? whole : accounts.slice(-1)).flatMap((account) =>
    orNull(names).flatMap((name) => counted.map((kind) => ({ ...account, name, kind }))),
  );
}

/**
 * Some agents report a web search under these kinds. A call of only these kinds, or of no kind, also counts as `fetch`
 * when its title or id matches `OF_THE_WEB`.
 */
const VAGUE: ReadonlySet<string> = new Set(['search', 'other', 'think']);
const OF_THE_WEB =
  /\bweb[-_ ]?(?:search|fetch|page)|\bsearch\w* (?:on |in )?(?:the )?(?:web|internet)\b|google_web_search|\bgoogle\b/i;

function orNull<Value>(values: ReadonlySet<Value>): readonly (Value | null)[] {
  return values.size === 0 ? [null] : [...values];
}

function pathsOf({ content, locations }: ToolCall): readonly string[] {
  const blocks = Array.isArray(content) ? content.map((block) => contentBlock.safeParse(block).data) : [];
  const diffs = blocks.flatMap((block) => (block?.type === 'diff' ? [block.path] : []));
  return [...new Set([...(locations ?? []).map(({ path }) => path), ...diffs])];
}

const INSTEAD: Readonly<Record<Choice, readonly PermissionOption['kind'][]>> = {
  allow: ['allow_once'],
  reject: ['reject_once', 'reject_always'],
};
const NO_ALLOW_ONCE = 'its agent cannot allow this call only once';

/**
 * Returns the agent's option for a choice, or `null`. Of several options of one kind, returns the last: agents list the
 * widest first (Qwen's "Yes, restore previous mode (yolo)").
 */
function sent(choice: Choice, options: readonly PermissionOption[]): PermissionOption | null {
  const found = INSTEAD[choice].map((kind) => options.findLast((each) => each.kind === kind));
  return found.find((option) => option !== undefined) ?? null;
}

const LONGEST_TITLE = 300;

function detailOf(title: string, updates: readonly ToolCall[], options: readonly PermissionOption[]): string {
  const titles = updates.flatMap((call) => (call.title ? [call.title] : []));
  const blocks = updates.flatMap(({ content }) => blocksIn(content));
  const changed = new Set(blocks.flatMap(({ texts }) => texts));
  const inputs = updates.map(({ rawInput }) => inputWords(referring(rawInput ?? undefined, changed)));
  const rest = [...blocks.map(({ words }) => words), ...updates.map(placeWords)];
  const parts = [
    ...blocks.filter(({ texts }) => texts.length > 0).map(({ words }) => words),
    ...updates.map(toolWords),
    ...([...inputs, ...rest].every((part) => part === '') ? [NOTHING_SHOWN] : [...inputs, ...rest]),
  ];
  const known = parts.filter((part, index) => part !== '' && !parts.slice(0, index).some((one) => one.includes(part)));
  const unsaid = [...new Set([title, ...titles])].filter((one) => !known.some((part) => part.includes(one)));
  return [...unsaid, ...known, answerWords(options)].join('\n\n');
}

const NOTHING_SHOWN = '⚠ Its agent shows nothing of what it would do.';

function referring(input: unknown, changed: ReadonlySet<string>): unknown {
  if (!isRecord(input)) return input;
  const isChanged = (value: unknown): boolean => typeof value === 'string' && changed.has(value);
  return Object.fromEntries(Object.entries(input).map(([key, value]) => [key, isChanged(value) ? IN_CHANGES : value]));
}

const IN_CHANGES = '(shown in the file changes)';

function toolWords({ name, kind, _meta }: ToolCall): string {
  const tools = [...new Set([...(name ? [name] : []), ...toolNames(_meta)])];
  const words = [...(tools.length === 0 ? [] : [`tool: ${tools.join(', ')}`]), ...(kind ? [`kind: ${kind}`] : [])];
  return words.join('\n');
}

/** Tool names in an agent's `_meta`, at any depth. */
function toolNames(meta: unknown): readonly string[] {
  if (typeof meta !== 'object' || meta === null) return [];
  return Object.entries(meta).flatMap(([key, value]) =>
    typeof value === 'string' ? (TOOL_NAME.test(key) ? [value] : []) : toolNames(value),
  );
}

type Block = { readonly words: string; readonly texts: readonly string[] };

function blocksIn(content: unknown): readonly Block[] {
  if (content === undefined || content === null) return [];
  return Array.isArray(content) ? content.map(blockOf) : [{ words: asJson(content), texts: [] }];
}

function blockOf(block: unknown): Block {
  const parsed = contentBlock.safeParse(block);
  if (!parsed.success) return { words: asJson(block), texts: [] };
  switch (parsed.data.type) {
    case 'content':
      return { words: parsed.data.content.text, texts: [] };
    case 'diff': {
      const { path, oldText = null, newText } = parsed.data;
      const texts = [oldText ?? '', newText].filter((text) => text !== '');
      return { words: unifiedDiff(path, oldText, newText), texts };
    }
    case 'terminal':
      return { words: `in the terminal ${parsed.data.terminalId}`, texts: [] };
  }
}

function placeWords({ locations }: ToolCall): string {
  return (locations ?? []).map(({ path, line }) => `at ${path}${line == null ? '' : `:${line}`}`).join('\n');
}

function answerWords(options: readonly PermissionOption[]): string {
  const words = (choice: Choice): string => {
    const option = sent(choice, options);
    return option === null ? 'not offered by the agent' : `sent as ${JSON.stringify(option.name)}`;
  };
  return `Allow is ${words('allow')}, deny is ${words('reject')}.`;
}

const contentBlock = z.discriminatedUnion('type', [
  z.object({ type: z.literal('content'), content: z.object({ type: z.literal('text'), text: z.string() }) }),
  z.object({ type: z.literal('diff'), path: z.string(), oldText: z.string().nullish(), newText: z.string() }),
  z.object({ type: z.literal('terminal'), terminalId: z.string() }),
]);

const TOOL_NAME = /^tool_?name$/i;
const nothing = z.array(z.unknown()).length(0).nullish();
const text = z.string().nullish();

/**
 * A request that may be for a tool of Conch. Agents name the tool in `_meta.claudeCode.toolName` (Claude Code),
 * `_meta.toolName` (Qwen Code), or the protocol's `name`.
 */
const ownCall = z.object({
  toolCall: z.object({
    name: text,
    kind: z.enum(['other', 'think']).nullish(),
    locations: nothing,
    content: nothing,
    rawInput: z.unknown(),
    _meta: z.object({ toolName: text, claudeCode: z.object({ toolName: text }).nullish() }).nullish(),
  }),
});

/** Returns a tool's name without the prefix of this server. Returns '' for a name without that prefix. */
function toolIn(name: string, server: string): string {
  const spelling = [`mcp__${server}__`, `mcp_${server}_`, `${server}_`].find((prefix) => name.startsWith(prefix));
  return spelling === undefined ? '' : name.slice(spelling.length);
}

/**
 * Returns a file change: a line with the path and the numbers of added and removed lines, then a unified diff with
 * at most three lines of context. `before` is `null` for a new file.
 */
export function unifiedDiff(path: string, before: string | null, after: string): string {
  const patch = structuredPatch(path, path, before ?? '', after, '', '', LIMITS) ?? replaced(path, before ?? '', after);
  const lines = patch.hunks.flatMap((hunk) => hunk.lines);
  const count = (mark: '+' | '-'): number => lines.filter((line) => line.startsWith(mark)).length;
  const about = `${path} (${before === null ? 'a new file, ' : ''}+${count('+')} -${count('-')})`;
  return patch.hunks.length === 0 ? about : `${about}\n${formatPatch(patch, OMIT_HEADERS).replace(/\n$/, '')}`;
}

/** Comparing takes time quadratic in `maxEditLength`, the maximum number of changed lines. */
const LIMITS = { context: 3, maxEditLength: 1_500 };

/**
 * Returns the patch of two texts that differ in more than 1,500 removed and added lines: removes all old lines, then
 * adds all new lines.
 */
function replaced(path: string, before: string, after: string): StructuredPatch {
  const [removal, addition] = [structuredPatch(path, path, before, ''), structuredPatch(path, path, '', after)];
  const [old, fresh] = [removal.hunks[0], addition.hunks[0]];
  if (old === undefined || fresh === undefined) return old === undefined ? addition : removal;
  const lines = [...old.lines, ...fresh.lines];
  return { ...removal, hunks: [{ ...old, newStart: fresh.newStart, newLines: fresh.newLines, lines }] };
}
