import { readdirSync, readlinkSync, realpathSync } from 'node:fs';
import { homedir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { channelIn, toolRulesOf } from '../../config/config.ts';
import type { AgentConfig, Config } from '../../config/config.ts';
import { toolUse } from '../../rules/tool-use.ts';
import type { WorkPlace } from '../../rules/paths.ts';
import type { ToolUse, UsePart } from '../../rules/tool-use.ts';
import type { GatedCall } from '../../agents/tools/tool-gate.ts';
import type { Instant } from '../../lib/time.ts';
import { visible } from '../../lib/visible.ts';
import { joinedLabels, labelsOf } from '../../rules/labels.ts';
import type { CallLabels } from '../../rules/labels.ts';
import { offersFor } from '../../rules/offers.ts';
import type { AlwaysOffer } from '../../rules/offers.ts';
import { namesOwnPort } from '../../rules/own-port.ts';
import { mcpToolOf, parseRule } from '../../rules/rule.ts';
import {
  VERDICTS,
  decideForMember,
  decideReadOnly,
  decideUse,
  reachesTool,
  toolRefusalText,
  whyDenied,
} from '../../rules/verdict.ts';
import type { LabelRules, ReadOnly, Remembered, ToolVerdict } from '../../rules/verdict.ts';
import { excerpt } from '../../turns/commands/clock-words.ts';
import type { AboutCall, FormField } from '../../turns/floor/settings.ts';
import { utcTime } from '../../turns/text/words.ts';
import { callDigest, redactedInput } from '../../work/runs/call-record.ts';
import type { RunSeat } from '../../work/runs/floor-binding.ts';
import type { RunCommandPorts } from '../../work/runs/run-commands.ts';
import type { RequestedCall } from '../../work/runs/run-events.ts';
import { IN_WORDS } from '../../turns/requesters.ts';
import type { Requester } from '../../turns/requesters.ts';
import type { SessionLabels } from '../../work/runs/run-taints.ts';
import type { RunState } from '../../work/runs/run.ts';
import { defined } from '../../lib/defined.ts';

/** The verdict of the rules about a call, and the always-allow rules on offer. */
export type CallJudgement = {
  readonly verdict: ToolVerdict['verdict'];
  /** Facts about the call for people; `null` when the agent is no longer configured. */
  readonly about: Pick<AboutCall, 'tool' | 'call' | 'folder' | 'why' | 'who' | 'danger'> | null;
  /** Text of the rule behind the verdict; `null` for none. */
  readonly rule: string | null;
  /** Why the call is denied, for people; absent when it is not. */
  readonly denied?: string;
  /** Id of the always-allow rule that allows the call; `null` for none. */
  readonly remembered: string | null;
  /** The answer to the agent if the rules deny the call. */
  readonly words: string;
  readonly offers: readonly AlwaysOffer[];
  /** Why the call needs approval even if a rule allows it; `null` for no reason. */
  readonly caution: string | null;
  /**
   * Labels of the text that the agent reads by the call, each with its source. The session gets these labels.
   * `untrusted` is also set when the session had read untrusted text before.
   */
  readonly brings: { readonly untrusted?: string; readonly private?: string };
};

/** What the verdict depends on besides the rules. `member`: the requester who is not an operator; `null` for none. */
export type CallCircumstances = {
  readonly at: Instant;
  readonly remembered: RunState['remembered'];
  readonly member: Requester | null;
  /** Rules that name the only tools that the run may use; `null`: all allowed tools. */
  readonly only?: readonly string[] | null;
  /** Why the agent must not change the work in this turn: it reviews, or speaks for another ticket. `null`: it may. */
  readonly readOnly?: ReadOnly | null;
  /** The path of the reviewer's files in the channel's last review, in a turn with `readOnly`. */
  readonly shown?: string;
  /** Labels of what the session has read; default: none. */
  readonly session?: SessionLabels;
  /** Redacts secrets in a text; default: no secrets. */
  readonly clean?: (text: string) => string;
};

/**
 * Judges a tool call by the present rules. A call of a coding agent can report several uses of tools (`accounts`): the
 * strictest verdict counts.
 */
export function judgeCall(
  config: Config,
  seat: RunSeat,
  call: GatedCall,
  { at, remembered, member, only = null, readOnly = null, shown, ...context }: CallCircumstances,
): CallJudgement {
  const agent = config.agents.find(({ id }) => id === seat.agent);
  if (agent === undefined) return UNJUDGED;
  const rules = toolRulesOf(config, agent, channelIn(config, seat.channel) ?? null, only);
  const own = workPlaceOf(agent, config);
  const place = own === null ? null : { ...own, ...defined({ shown }) };
  const memory = { at, definition: call.definition, remembered: remembered.flatMap(parseStoredRule) };
  const { tool: name, input, accounts = [{ name, kind: null, input, locations: [] }] } = call;
  const uses = accounts.map((account) => toolUse(account, place));
  const forMember = { members: rules.members, isHarmless: call.repeatable };
  const judged = uses.map((use) => {
    const usual = decideUse(use, rules, memory);
    const decided = readOnly === null ? usual : decideReadOnly(use, readOnly, usual);
    return { use, decided: member === null ? decided : decideForMember(use, decided, forMember) };
  });
  const strictest = judged.toSorted((a, b) => rank(b.decided) - rank(a.decided))[0];
  if (strictest === undefined) return UNJUDGED;
  const { use, decided } = strictest;
  const labels = labelsOfAll(uses, rules, call);
  const cautions = [pageCaution(call, config), call.caution].filter((each) => each !== null);
  const asCaution = cautions.length === 0 ? null : cautions.join('; ');
  const { caution, isDanger } = cautionsAbout({ ...call, caution: asCaution }, labels, context);
  const { unaskable, server = { trusted: false } } = call;
  const facts = { shownWhole: unaskable === undefined, tainted: caution !== null, ...server };
  const offered = judged.map((each) => offersFor(each.use, each.decided, facts));
  const [first = [], ...rest] = decided.verdict === 'ask' ? offered : [];
  return {
    verdict: decided.verdict === 'allow' && caution !== null ? 'ask' : decided.verdict,
    about: {
      tool: toolWords(call.tool, use),
      ...shortCall(call, uses),
      folder: place?.folder ?? null,
      why: whyAsked(decided, member),
      ...whoDecides(agent),
      ...(isDanger ? { danger: true } : {}),
    },
    rule: decided.rule?.text ?? null,
    ...(decided.verdict === 'deny' ? { denied: whyDenied(decided) } : {}),
    remembered: caution === null ? usedRuleId(decided, memory.remembered) : null,
    words: toolRefusalText(use, decided, rules),
    offers: first.filter(({ rule }) => rest.every((offers) => offers.some((other) => other.rule === rule))),
    caution,
    brings: labelsBroughtBy(labels, context.session),
  };
}

/**
 * The request for a call in words for people: the whole input, with invisible characters spelled out and secrets
 * redacted. `lastAnswer`: the agent's last words. No always-allow rules are offered when people cannot be asked, or the
 * input is not shown as it is. A text longer than `LONGEST_DETAIL` is left out, and `unaskable` says so.
 */
export function describeRequest(
  call: GatedCall,
  { about, offers, caution }: Pick<CallJudgement, 'about' | 'offers' | 'caution'>,
  { lastAnswer, clean }: { readonly lastAnswer: string; readonly clean: (text: string) => string },
): NonNullable<RequestedCall['words']> {
  const show = (text: string): string => visible(clean(text));
  const { title = call.tool, unaskable, answer, form, showsAnswer } = call;
  const [reason = '', ...more] = caution?.split('\n') ?? [];
  // A caution of several lines is shown before the text of the call.
  const whole = [...(more.length === 0 ? [] : [`⚠ ${caution}`]), call.detail].join('\n');
  const detail = show(whole);
  const why = detail.length > LONGEST_DETAIL ? TOO_LONG : unaskable;
  const isShownAsIs = detail === whole && clean(JSON.stringify(call.input)) === JSON.stringify(call.input);
  const redactedAbout = about && {
    ...about,
    tool: show(about.tool),
    ...(about.call === undefined ? {} : { call: excerpt(show(about.call), SHORT_CALL) }),
    folder: about.folder === null ? null : show(about.folder),
    why: show(reason === '' ? about.why : `⚠ ${reason}`),
    ...(answer === undefined ? {} : { answer: show(answer) }),
    ...(form === undefined || why === TOO_LONG ? {} : { form: form.map((field) => showField(field, show)) }),
    ...defined({ showsAnswer }),
    says: lastAnswer.trim() === '' ? null : excerpt(show(lastAnswer), LONGEST_SAYING),
  };
  return {
    title: titleWords(title, redactedAbout, show),
    detail: why === TOO_LONG ? '' : detail,
    ...(redactedAbout === null ? {} : { about: redactedAbout }),
    ...defined({ unaskable: why }),
    ...(offers.length === 0 || why !== undefined || !isShownAsIs ? {} : { offers: [...offers] }),
  };
}

function showField(field: FormField, show: (text: string) => string): FormField {
  const { name, label, hint, options, initial } = field;
  return {
    ...field,
    name: show(name),
    label: show(label),
    hint: show(hint),
    options: options.map((option) => ({ value: show(option.value), label: show(option.label) })),
    ...(initial === undefined ? {} : { initial: show(initial) }),
  };
}

/** Returns the tool call as the run stores it, with secrets redacted by `clean`. */
export function recordedCall(
  call: GatedCall,
  { verdict, rule, about, denied }: Pick<CallJudgement, 'verdict' | 'rule' | 'about' | 'denied'>,
  { id, clean }: { readonly id: string; readonly clean: (text: string) => string },
): RequestedCall {
  const { id: agentCall, tool, input, repeatable, definition, accounts, program } = call;
  const source = accounts === undefined ? ('conch' as const) : ('agent' as const);
  const more = { ...(definition === null ? {} : { definition }), ...defined({ program }) };
  // A call that could send private data out, with untrusted text in the session, is never decided together with others.
  const alone = about?.danger === true ? ({ alone: true } as const) : {};
  const why = verdict === 'deny' ? defined({ why: denied }) : {};
  const callFields = { id, agentCall, tool, input: redactedInput(input, clean), digest: digestOf(call) };
  return { ...callFields, source, repeatable, ...more, verdict, rule, ...why, ...alone };
}

/** The digest of the tool, its definition and its raw input; also of `detail` for a call that the agent carries out. */
export function digestOf({ tool, definition, input, detail, accounts }: GatedCall): string {
  return callDigest([tool, definition, accounts === undefined ? input : [input, detail]]);
}

/** The longest request that people are asked about, in UTF-16 units. */
export const LONGEST_DETAIL = 262_144;

/** The longest part of the agent's last words that is shown beside its request, in characters. */
const LONGEST_SAYING = 300;
const TOO_LONG = `its input is longer than ${LONGEST_DETAIL.toLocaleString('en-US')} characters; split it`;

const UNJUDGED: CallJudgement = {
  verdict: 'ask',
  about: null,
  rule: null,
  remembered: null,
  words: '',
  offers: [],
  caution: null,
  brings: {},
};

function labelsBroughtBy(labels: CallLabels, session: SessionLabels | undefined): CallJudgement['brings'] {
  const untrusted = session?.untrusted?.from ?? labels.untrusted;
  return {
    ...(untrusted === null ? {} : { untrusted }),
    ...(labels.private === null ? {} : { private: labels.private }),
  };
}

function labelsOfAll(uses: readonly ToolUse[], rules: LabelRules, { server, repeatable }: GatedCall): CallLabels {
  const facts = { open: server?.open ?? true, isHarmless: repeatable };
  return joinedLabels(uses.map((use) => labelsOf(use, rules, facts)));
}

/**
 * Reasons why a call that rules allow needs approval. `isDanger`: the call could send private data out, with untrusted
 * text in the session.
 */
function cautionsAbout(
  { caution, input, detail, accounts }: GatedCall,
  labels: CallLabels,
  { session, clean = (text) => text }: Pick<CallCircumstances, 'session' | 'clean'>,
): { readonly caution: string | null; readonly isDanger: boolean } {
  const { untrusted: untrustedLabel = null, private: privateLabel = null } = session ?? {};
  const isSecret = [JSON.stringify(input), detail].some((text) => clean(text) !== text);
  const secret = privateLabel?.from ?? labels.private ?? (isSecret ? 'a secret in its input' : null);
  const isDanger = untrustedLabel !== null && labels.outward && secret !== null;
  const reasons = [
    ...(untrustedLabel === null || !labels.acts
      ? []
      : [`its agent has read untrusted text (${untrustedLabel.from}, since ${utcTime(untrustedLabel.since)})`]),
    ...(isDanger ? [`it has private data (${secret}), and this call may send it away`] : []),
    ...(isSecret && accounts !== undefined ? ['its input contains a secret'] : []),
    ...(caution === null ? [] : [caution]),
  ];
  return { caution: reasons.length === 0 ? null : reasons.join('; '), isDanger };
}

/**
 * Why a call that may reach Conch's page needs approval: whoever opens that page is an operator. `null` for other
 * calls, and without a page.
 */
export function pageCaution(
  { input, detail }: { readonly input: unknown; readonly detail: string },
  { adapters: { console: page } }: Pick<Config, 'adapters'>,
): string | null {
  const isNamed = page.enabled && namesOwnPort([...leavesOf(input), detail], page.port);
  return isNamed ? 'it may reach Conch’s own page, where people decide' : null;
}

function leavesOf(input: unknown): readonly string[] {
  if (typeof input === 'string' || typeof input === 'number') return [String(input)];
  return typeof input === 'object' && input !== null
    ? Object.entries(input).flatMap(([key, each]) => [key, ...leavesOf(each)])
    : [];
}

/** The title of a call for people: "write_file note.txt (scratch)" for a server's tool, else the title itself. */
function titleWords(title: string, about: Pick<AboutCall, 'call'> | null, show: (text: string) => string): string {
  const mcp = mcpToolOf(title);
  return mcp === null ? show(title) : `${about?.call ?? show(mcp.name)} (${show(mcp.server)})`;
}

function toolWords(tool: string, { parts }: ToolUse): string {
  const [{ kind, mcp }] = parts;
  if (mcp !== null) return `${mcp.name} (${mcp.server})`;
  return tool === kind ? kind : `${kind} (${tool})`;
}

/** The call in a few words for people, not yet redacted or cut. */
function shortCall({ tool, input, answer }: GatedCall, uses: readonly ToolUse[]): Pick<AboutCall, 'call'> {
  const [use] = uses;
  if (use === undefined || answer !== undefined) return {};
  const [first] = use.parts;
  if (use.title.startsWith('execute(')) {
    const command = Reflect.get(input, 'command');
    return typeof command === 'string' ? { call: command } : {};
  }
  const verb = first.mcp?.name ?? (first.kind === 'other' ? tool : first.kind);
  const namedPaths = uses.flatMap(({ parts }) => parts.flatMap(({ about, paths }) => pathsOf(about, paths)));
  const paths = [...new Set(namedPaths)];
  const inputs = first.about.of === 'input' ? Object.values(first.about.values) : [];
  const host = first.about.of === 'host' ? first.about.host : null;
  const target = paths[0] ?? host ?? inputs.find((value) => value.length > 0 && value.length <= SHORT_VALUE);
  const more = paths.length > 1 ? ` and ${paths.length - 1} more` : '';
  return target === undefined ? {} : { call: `${verb} ${target}${more}` };
}

function pathsOf(about: UsePart['about'], paths: UsePart['paths']): readonly string[] {
  const all = about.of === 'path' ? [about] : paths.filter(({ known }) => known);
  return all.map(({ written: { folder, home, disk } }) => folder ?? (home === null ? `/${disk}` : `~/${home}`));
}

const SHORT_CALL = 100;
const SHORT_VALUE = 60;

function whyAsked({ verdict, by, rule }: ToolVerdict, member: Requester | null): string {
  if (verdict === 'deny') return whyDenied({ by, rule });
  switch (by) {
    case 'members':
      return `⚠ ${IN_WORDS.asked(member?.name ?? '')}, who is not an operator`;
    case 'ask!':
      return `rule "${rule?.text}" always asks`;
    case 'default':
    case 'run':
      return 'no rule covers it';
    default:
      return `rule "${rule?.text}" asks`;
  }
}

function whoDecides({ approvers }: Pick<AgentConfig, 'approvers'>): Pick<AboutCall, 'who'> {
  if (approvers === undefined) return {};
  return { who: approvers === 'other' ? 'operators, except those who asked for the work' : approvers.join(', ') };
}

function rank({ verdict }: ToolVerdict): number {
  return VERDICTS.indexOf(verdict);
}

function usedRuleId({ by, rule }: ToolVerdict, remembered: readonly StoredRule[]): string | null {
  return by === 'remembered' ? (remembered.find((stored) => stored.rule === rule)?.id ?? null) : null;
}

type StoredRule = Remembered & { readonly id: string };

/** Parses a stored always-allow rule. A rule that this version cannot parse is dropped. */
function parseStoredRule({ id, rule: text, until, definition }: RunState['remembered'][number]): readonly StoredRule[] {
  const parsed = parseRule(text);
  return parsed.ok ? [{ id, rule: parsed.rule, until, definition }] : [];
}

/**
 * Whether the present rules allow, or ask people about, some call of a server's tool. `tool: null`: of any tool of the
 * server.
 */
export function reachesServer(
  config: Config,
  seat: RunSeat,
  server: string,
  tool: string | null,
  only: readonly string[] | null = null,
): boolean {
  const agent = config.agents.find(({ id }) => id === seat.agent);
  if (agent === undefined) return false;
  const channel = channelIn(config, seat.channel) ?? null;
  return reachesTool(toolRulesOf(config, agent, channel, only), server, tool);
}

/** Parses rules separated by commas outside of brackets; returns what is wrong otherwise. */
export function readToolList(text: string): ReturnType<RunCommandPorts['readTools']> {
  const rules = (text.match(/(?:\([^)]*\)|[^,(]|\()+/g) ?? []).map((rule) => rule.trim()).filter((rule) => rule !== '');
  for (const rule of rules) {
    const parsed = parseRule(rule);
    if (!parsed.ok) return { ok: false, why: parsed.message };
  }
  return rules.length === 0 ? { ok: false, why: 'That list has no tool.' } : { ok: true, rules };
}

/** Returns an agent's working folder, this user's home and Conch's files; `null` for a remote agent. */
export function workPlaceOf(
  { backend }: AgentConfig,
  { file, dataDir }: Pick<Config, 'file' | 'dataDir'>,
): WorkPlace | null {
  if (backend.kind === 'remote') return null;
  const folder = resolve('cwd' in backend && backend.cwd !== undefined ? backend.cwd : '.');
  const both = (path: string): readonly string[] => [path, realpath(path) ?? path];
  const isInside = both(dataDir).some((data) => both(folder).some((each) => `${each}/`.startsWith(`${data}/`)));
  // Conch's own files, for an agent in a subfolder of the data folder: all entries of the data folder but the agent's
  // own. For an agent in the data folder itself: only `DATA_FILES`. `DATA_FILES` count also before they exist.
  const isSame = both(dataDir).some((at) => both(folder).includes(at));
  const parts = [...DATA_FILES, ...(isSame ? [] : namesIn(dataDir))].map((name) => join(dataDir, name));
  const isAround = (path: string): boolean =>
    both(path).some((at) => both(folder).some((each) => `${each}/`.startsWith(`${at}/`)));
  const data = (isInside ? parts.filter((path) => !isAround(path)) : [dataDir]).flatMap((path) => both(path));
  const config = [file ?? 'turnConfig.json', ...VARIABLE_FILES].flatMap((path) => both(resolve(path)));
  const own = { config, data };
  return { folder, home: homedir(), realpath: (path) => realpath(path), namesIn, own };
}

/** The files of environment variables of Conch and of its service, in the folder in which Conch was started. */
export const VARIABLE_FILES: readonly string[] = ['.env', 'conch.env'];

/** Names in the data folder that hold tokens, logins, records of checks or the database. */
const DATA_FILES = ['console-token', 'agent-tokens.json', 'mcp-logins', 'agent-checks.json'].concat(
  ['conch.db', 'shared.db'].flatMap((name) => [name, `${name}-wal`, `${name}-shm`]),
);

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function realpath(path: string, links = 0): string | null {
  try {
    return realpathSync(path);
  } catch {
    const target = links < MOST_LINKS ? linkAt(path) : null;
    if (target === null) return null;
    // A write to a link changes the file that the link names.
    const at = resolve(realpath(dirname(path), links + 1) ?? dirname(path), target);
    return realpath(at, links + 1) ?? join(realpath(dirname(at), links + 1) ?? dirname(at), basename(at));
  }
}

/** The most links that are followed, as in common systems. */
const MOST_LINKS = 40;

function linkAt(path: string): string | null {
  try {
    return readlinkSync(path);
  } catch {
    return null;
  }
}
