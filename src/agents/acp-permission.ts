import type { Choice } from '../turns/core/settings.ts';
import type { PermissionRequest } from './backend.ts';
import type { PermissionOption, ToolCall } from './acp-wire.ts';
import { VERB_SERVER } from './acp-words.ts';
import { isVerb } from './verbs.ts';

/** What to show people of a tool call that waits for their yes. Without an option for a yes this once there is nothing to ask. */
export function permissionFor(
  title: string,
  told: readonly ToolCall[],
  options: readonly PermissionOption[],
): PermissionRequest {
  const detail = detailOf(title, told);
  const request = { title: title.length > LONGEST_TITLE ? `${title.slice(0, LONGEST_TITLE)}…` : title, detail };
  return sent('allow', options) === null ? { ...request, unaskable: NO_YES } : request;
}

/**
 * The option for a choice, by its kind: a yes for this once and no other; a no in any form that the agent offers.
 * `null`: there is none, the request is cancelled.
 */
export function optionFor(choice: Choice | 'cancelled', options: readonly PermissionOption[]): string | null {
  return choice === 'cancelled' ? null : (sent(choice, options)?.optionId ?? null);
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

const HARMLESS: ReadonlySet<string> = new Set(['other', 'think']);
const SPELLINGS = [
  new RegExp(`^mcp__${VERB_SERVER}__(?<verb>\\w+)$`),
  new RegExp(`^(?:mcp_)?${VERB_SERVER}_(?<verb>\\w+)$`),
  new RegExp(`^(?:mcp[./])?${VERB_SERVER}[./](?<verb>\\w+)$`),
  new RegExp(`^(?<verb>\\w+) \\(${VERB_SERVER} MCP Server\\)(?:: .*)?$`, 's'),
];
const LONGEST_TITLE = 300;

function detailOf(title: string, told: readonly ToolCall[]): string {
  const written = told.findLast(({ rawInput }) => rawInput !== undefined)?.rawInput;
  const text = typeof written === 'string' ? written : JSON.stringify(written, null, 1);
  const places = told.flatMap(({ locations }) => locations ?? []).map(({ path }) => path);
  return text === undefined || text === '{}' ? [title, ...places].join('\n') : text;
}
