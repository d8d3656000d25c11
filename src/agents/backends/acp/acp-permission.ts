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
 * A call that an agent asks for, or tells of, as it stands before the gate; `options`: the answers that it takes, if it asks.
 * People are shown all that was told of it, before and with the request, that says what would run (Kimi cuts a command in the
 * request that an update held whole; OpenCode's request for a foreign folder holds none), and in what words the agent would be
 * answered. Without an option for a yes this once there is nothing to ask.
 */
export function gatedCall(title: string, told: readonly ToolCall[], options: readonly PermissionOption[]): GatedCall {
  const detail = detailOf(title, told, options);
  const accounts = toolRequestsOf(told);
  const named = accounts.find(({ name }) => name !== null)?.name;
  const input = told.findLast(({ rawInput }) => isRecord(rawInput))?.rawInput;
  return {
    id: told[0]?.toolCallId ?? '',
    tool: named ?? accounts.find(({ kind }) => kind !== null)?.kind ?? 'other',
    input: isRecord(input) ? input : { told: detail },
    definition: null,
    repeatable: false,
    title: title.length > LONGEST_TITLE ? `${title.slice(0, LONGEST_TITLE)}…` : title,
    detail,
    accounts,
    // Nobody can say yes, so even what a rule allows is a no, and people are told.
    ...(sent('allow', options) === null ? { caution: NO_YES, unaskable: NO_YES } : { caution: null }),
  };
}

/** What came of a call, as its agent tells it. */
export function resultOf({ status, content, rawOutput }: ToolCall): CallResult {
  const isElsewhere =
    Array.isArray(content) && content.every((block) => contentBlock.safeParse(block).data?.type === 'terminal');
  const blocks = isElsewhere && typeof rawOutput === 'string' ? [] : blocksIn(content);
  const words = blocks.map((block) => block.words).join('\n');
  const output = words === '' ? (typeof rawOutput === 'string' ? rawOutput : asJson(rawOutput ?? '')) : words;
  const code = status === 'failed' ? 'TOOL_FAILED' : null;
  return { status: code === null ? 'complete' : 'error', output, code, durationMs: null };
}

/** What a call has put out by now, where its agent tells that piece by piece, as to a terminal (Codex); `null` where it does not. */
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
 * The option for a choice, by its kind: a yes for this once and no other, for agents keep one for always in files of their
 * own, where nobody takes it back; a no in any form that the agent offers. `null`: there is none, the request is cancelled.
 */
export function optionFor(choice: Choice, options: readonly PermissionOption[]): string | null {
  return sent(choice, options)?.optionId ?? null;
}

/**
 * Whether a `session/request_permission` is for one of the floor's own tools, which agents may use unasked: the names that
 * the agent itself gives the tool (never its title, which models write) are all those of one floor tool of this session's server,
 * and the call holds the input of that floor tool and nothing else that could happen. Of a tool that Conch itself runs the call
 * is decided about when it arrives there.
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
 * A tool call as rules see it: each account of it that says what it is given, or the last one if none does, under every name and
 * as every kind that it goes by. Its names are those that the agent itself gives the tool; its title, which models write, is none.
 */
export function toolRequestsOf(told: readonly ToolCall[]): readonly ToolRequest[] {
  const names = new Set(told.flatMap(({ name, _meta }) => [...(name ? [name] : []), ...toolNames(_meta)]));
  const kinds = new Set(told.flatMap(({ kind }) => TOOL_KINDS.filter((each) => each === kind)));
  // No title lets anything through; one can make a call stricter.
  const isVague = [...kinds].every((kind) => VAGUE.has(kind));
  if (isVague && told.some(({ title, toolCallId }) => OF_THE_WEB.test(`${toolCallId} ${title ?? ''}`)))
    kinds.add('fetch');
  const accounts = told.map((call) => ({ input: call.rawInput, locations: pathsOf(call) }));
  const speaking = accounts.filter(({ input, locations }) => (input ?? null) !== null || locations.length > 0);
  return (speaking.length > 0 ? speaking : accounts.slice(-1)).flatMap((account) =>
    orNull(names).flatMap((name) => orNull(kinds).map((kind) => ({ ...account, name, kind }))),
  );
}

/** The kinds by which some agents tell of a search on the web, and what its title or its id says then. */
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
const NO_YES = 'its agent takes no yes for this once alone';

/** Of several the last one: agents begin with what does the most (Qwen's "Yes, restore previous mode (yolo)"). */
function sent(choice: Choice, options: readonly PermissionOption[]): PermissionOption | null {
  const found = INSTEAD[choice].map((kind) => options.findLast((each) => each.kind === kind));
  return found.find((option) => option !== undefined) ?? null;
}

const LONGEST_TITLE = 300;

/**
 * The parts of a text, each once: what stands in an earlier one is not repeated. Changes of files go before all else, for those
 * are what is decided about; an input that holds the same texts once more refers to them.
 */
function detailOf(title: string, told: readonly ToolCall[], options: readonly PermissionOption[]): string {
  const titles = told.flatMap((call) => (call.title ? [call.title] : []));
  const blocks = told.flatMap(({ content }) => blocksIn(content));
  const changed = new Set(blocks.flatMap(({ texts }) => texts));
  const inputs = told.map(({ rawInput }) => inputWords(referring(rawInput ?? undefined, changed)));
  const rest = [...blocks.map(({ words }) => words), ...told.map(placeWords)];
  const parts = [
    ...blocks.filter(({ texts }) => texts.length > 0).map(({ words }) => words),
    ...told.map(toolWords),
    ...([...inputs, ...rest].every((part) => part === '') ? [NOTHING_SHOWN] : [...inputs, ...rest]),
  ];
  const known = parts.filter((part, index) => part !== '' && !parts.slice(0, index).some((one) => one.includes(part)));
  const unsaid = [...new Set([title, ...titles])].filter((one) => !known.some((part) => part.includes(one)));
  return [...unsaid, ...known, answerWords(options)].join('\n\n');
}

const NOTHING_SHOWN = '⚠ Its agent shows nothing of what it would do.';

/** The input with a reference in place of each text that is shown as a change. */
function referring(input: unknown, changed: ReadonlySet<string>): unknown {
  if (!isRecord(input)) return input;
  const isChanged = (value: unknown): boolean => typeof value === 'string' && changed.has(value);
  return Object.fromEntries(Object.entries(input).map(([key, value]) => [key, isChanged(value) ? IN_CHANGES : value]));
}

const IN_CHANGES = '(stands in the changes)';

function toolWords({ name, kind, _meta }: ToolCall): string {
  const tools = [...new Set([...(name ? [name] : []), ...toolNames(_meta)])];
  const words = [...(tools.length === 0 ? [] : [`tool: ${tools.join(', ')}`]), ...(kind ? [`kind: ${kind}`] : [])];
  return words.join('\n');
}

/** Names of tools that agents put beside the protocol, however deep. */
function toolNames(meta: unknown): readonly string[] {
  if (typeof meta !== 'object' || meta === null) return [];
  return Object.entries(meta).flatMap(([key, value]) =>
    typeof value === 'string' ? (TOOL_NAME.test(key) ? [value] : []) : toolNames(value),
  );
}

/** A piece of what a call holds, in words; of a change also the texts before and after it. */
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

/** The agent's own words for each answer that it can be sent, quoted: they label no button. */
function answerWords(options: readonly PermissionOption[]): string {
  const words = (choice: Choice): string => {
    const option = sent(choice, options);
    return option === null ? 'not known to it' : `sent as ${JSON.stringify(option.name)}`;
  };
  return `A yes is ${words('allow')}, a no is ${words('reject')}.`;
}

const contentBlock = z.discriminatedUnion('type', [
  z.object({ type: z.literal('content'), content: z.object({ type: z.literal('text'), text: z.string() }) }),
  z.object({ type: z.literal('diff'), path: z.string(), oldText: z.string().nullish(), newText: z.string() }),
  z.object({ type: z.literal('terminal'), terminalId: z.string() }),
]);

const TOOL_NAME = /^tool_?name$/i;
const nothing = z.array(z.unknown()).length(0).nullish();
const text = z.string().nullish();

/** The names: `_meta.claudeCode.toolName` of Claude Code, `_meta.toolName` of Qwen Code, and the protocol's own. */
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

/** The floor tool that agents would spell so; '' when it is none of this server's. */
function toolIn(name: string, server: string): string {
  const spelling = [`mcp__${server}__`, `mcp_${server}_`, `${server}_`].find((prefix) => name.startsWith(prefix));
  return spelling === undefined ? '' : name.slice(spelling.length);
}

/**
 * Returns what changes in a file: a line with its path and the number of lines added and removed, then a unified diff with
 * three lines of context. `before` is `null` for a new file.
 */
export function unifiedDiff(path: string, before: string | null, after: string): string {
  const patch = structuredPatch(path, path, before ?? '', after, '', '', LIMITS) ?? replaced(path, before ?? '', after);
  const lines = patch.hunks.flatMap((hunk) => hunk.lines);
  const count = (mark: '+' | '-'): number => lines.filter((line) => line.startsWith(mark)).length;
  const about = `${path} (${before === null ? 'a new file, ' : ''}+${count('+')} -${count('-')})`;
  return patch.hunks.length === 0 ? about : `${about}\n${formatPatch(patch, OMIT_HEADERS).replace(/\n$/, '')}`;
}

/** The time of a comparison grows with the square of `maxEditLength`, the most lines that may change. */
const LIMITS = { context: 3, maxEditLength: 1_500 };

/** The patch of two texts that differ in too many lines to be compared: removes all old lines and adds all new ones. */
function replaced(path: string, before: string, after: string): StructuredPatch {
  const [removal, addition] = [structuredPatch(path, path, before, ''), structuredPatch(path, path, '', after)];
  const [old, fresh] = [removal.hunks[0], addition.hunks[0]];
  if (old === undefined || fresh === undefined) return old === undefined ? addition : removal;
  const lines = [...old.lines, ...fresh.lines];
  return { ...removal, hunks: [{ ...old, newStart: fresh.newStart, newLines: fresh.newLines, lines }] };
}
