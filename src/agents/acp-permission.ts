import type { PermissionChoice, PermissionRequest } from './backend.ts';
import type { PermissionOption, ToolCall } from './acp-wire.ts';
import { VERB_SERVER } from './acp-words.ts';
import { isVerb } from './verbs.ts';

/** What to show people of a tool call that waits for their yes. What could hide in the text is spelled out. */
export function permissionFor(call: ToolCall, title: string, options: readonly PermissionOption[]): PermissionRequest {
  const kinds = [...new Set(options.map(({ kind }) => kind))];
  return { title: visible(title).slice(0, LONGEST_TITLE), detail: visible(detailOf(call)), kinds };
}

/**
 * The option for a choice, by its kind. A yes is never made wider than it was given; a no is taken in any form that the
 * agent offers. `null`: there is none, the request is cancelled.
 */
export function optionFor(choice: PermissionChoice | 'cancelled', options: readonly PermissionOption[]): string | null {
  const kinds = choice === 'cancelled' ? [] : INSTEAD[choice];
  const option = kinds.map((kind) => options.find((each) => each.kind === kind)).find((found) => found !== undefined);
  return option?.optionId ?? null;
}

/**
 * Whether a tool call is one of the floor's verbs, which agents may use unasked: by the name of our server and of a verb in
 * the ways agents are known to spell them, and never when the call is of a kind that changes things.
 */
export function isOwnVerb(call: ToolCall): boolean {
  if (call.kind !== null && call.kind !== undefined && !HARMLESS.has(call.kind)) return false;
  const name = (call.name ?? call.title ?? '').trim();
  return SPELLINGS.some((spelling) => isVerb(spelling.exec(name)?.groups?.['verb'] ?? ''));
}

const INSTEAD: Readonly<Record<PermissionChoice, readonly PermissionChoice[]>> = {
  allow_once: ['allow_once'],
  allow_always: ['allow_always', 'allow_once'],
  reject_once: ['reject_once', 'reject_always'],
  reject_always: ['reject_always', 'reject_once'],
};

const HARMLESS: ReadonlySet<string> = new Set(['other', 'think']);
const SPELLINGS = [
  new RegExp(`^mcp__${VERB_SERVER}__(?<verb>\\w+)$`),
  new RegExp(`^(?:mcp_)?${VERB_SERVER}_(?<verb>\\w+)$`),
  new RegExp(`^(?:mcp[./])?${VERB_SERVER}[./](?<verb>\\w+)$`),
  new RegExp(`^(?<verb>\\w+) \\(${VERB_SERVER} MCP Server\\)(?:: .*)?$`, 's'),
];
const LONGEST_TITLE = 300;
const LONGEST_DETAIL = 2_000;
const HIDDEN = /[^\P{C}\n\t]|[\p{Zl}\p{Zp}]/gu;

function detailOf({ rawInput, locations }: ToolCall): string {
  const written = typeof rawInput === 'object' && rawInput !== null ? commandOf(rawInput) : rawInput;
  const text = typeof written === 'string' ? written : JSON.stringify(written, null, 1);
  const detail = text === undefined || text === '{}' ? (locations ?? []).map(({ path }) => path).join('\n') : text;
  if (detail.length <= LONGEST_DETAIL) return detail;
  return `${detail.slice(0, LONGEST_DETAIL)}\n(${detail.length - LONGEST_DETAIL} more characters)`;
}

/** A command line alone says more than the object around it, if nothing else is in it. */
function commandOf(input: object): unknown {
  const { command, description: _, ...rest } = input as Record<string, unknown>;
  return typeof command === 'string' && Object.keys(rest).length === 0 ? command : input;
}

function visible(text: string): string {
  return text.replace(HIDDEN, (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`);
}
