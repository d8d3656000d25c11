import type { AgentId, ChannelId } from '../floor/settings.ts';
import type { FloorView } from '../view.ts';
import {
  OVER,
  runAdd,
  runAnswer,
  runExtend,
  runGrant,
  runMode,
  runOrder,
  runPause,
  runRemove,
  runResume,
  runSkip,
  runStart,
  runStop,
  switchAgent,
} from './act.ts';
import type { Answer, CommandContext, Person, Request, RosterEntry, RunVerb } from './context.ts';
import {
  agentsText,
  helpText,
  logText,
  modeText,
  noHelp,
  orderText,
  queueText,
  statusText,
  whoamiText,
  whyText,
} from './read.ts';
import { askedWith } from '../floor/seats.ts';
import { readDrawnFor } from '../drawn-for.ts';
import { parseLine, quoted } from './parse.ts';
import type { Invocation } from './parse.ts';
import { mayOperate } from './context.ts';
import type { CommandPath } from './command-table.ts';
import { list } from './fact-words.ts';
import { didYouMean } from '../../lib/nearest.ts';

/** Answers command lines. */
export type Operators = {
  /**
   * Reads a line, checks who may, does it and says so in a few words. A refused command changes nothing and the
   * answer says why. Rejects only when the floor could not be written. `drawnFor`: the word of the button by which it came.
   */
  run(channel: ChannelId, person: Person, line: string, drawnFor?: string): Promise<Answer>;
  /** Why `run` would refuse this person now, before anybody fills in a form for it; `null`: it would not. */
  refusal(channel: ChannelId, person: Person, line: string, drawnFor?: string): string | null;
};

/** Commands over these floors and agents. */
export function createOperators(context: CommandContext): Operators {
  return {
    async run(channel, person, line, word) {
      const asked = askedBy({ channel, person, line, word }, context);
      if (!asked.ok) return { ok: false, text: asked.message };
      const { invocation, request, refusal } = asked;
      if (invocation.needs === 'read') return RUN[invocation.path](request, context);
      const answer =
        refusal === null ? await RUN[invocation.path](request, context) : { ok: false as const, text: refusal };
      context.audit?.({ channel, by: person.id, line, ...answer });
      return answer;
    },
    refusal(channel, person, line, word) {
      const asked = askedBy({ channel, person, line, word }, context);
      return asked.ok ? asked.refusal : null;
    },
  };
}

type Asked = {
  readonly channel: ChannelId;
  readonly person: Person;
  readonly line: string;
  readonly word: string | undefined;
};

/** What a line asks for, and why this person may not have it, if so. */
function askedBy({ channel, person, line, word }: Asked, context: CommandContext) {
  const parsed = parseLine(line);
  if (!parsed.ok) return parsed;
  const { invocation } = parsed;
  const drawnFor = word === undefined ? undefined : readDrawnFor(word);
  const pressed = drawnFor == null ? {} : { drawnFor };
  const request: Request = { channel, person, values: invocation.values, ...pressed };
  if (invocation.needs === 'read') return { ok: true as const, invocation, request, refusal: null };
  const over = drawnFor === null ? OVER.turn : overFor(request, context);
  return { ok: true as const, invocation, request, refusal: over ?? refusalTo(invocation, request, context) };
}

type Run = (request: Request, context: CommandContext) => Answer | Promise<Answer>;

const RUN: Readonly<Record<CommandPath, Run>> = {
  'floor status': (request, context) => withView(request, context, (view) => statusText(view, context)),
  'floor start': (request, context) => withFloor(request, context, () => runStart(request, context)),
  'floor grant': (request, context) => withAgent(request, context, (agent) => runGrant(request, agent, context)),
  'floor skip': (request, context) =>
    request.values.agent === undefined
      ? withFloor(request, context, () => runSkip(request, undefined, context))
      : withAgent(request, context, (agent) => runSkip(request, agent, context)),
  'floor extend': (request, context) => withFloor(request, context, () => runExtend(request, context)),
  'floor pause': (request, context) => withFloor(request, context, () => runPause(request, context)),
  'floor resume': (request, context) => withFloor(request, context, () => runResume(request, context)),
  'floor order': (request, context) =>
    request.values.order === undefined
      ? withView(request, context, (view) => orderText(view, context.names.agent))
      : withFloor(request, context, () => withQueue(request, context)),
  'floor mode': (request, context) =>
    request.values.mode === undefined
      ? withView(request, context, modeText)
      : withFloor(request, context, () => runMode(request, context)),
  'floor add': (request, context) => withAgent(request, context, (agent) => runAdd(request, agent, context)),
  'floor remove': (request, context) => withAgent(request, context, (agent) => runRemove(request, agent, context)),
  'floor log': (request, context) =>
    withView(request, context, () => logText(request.channel, request.values.count ?? DEFAULT_LOG_COUNT, context)),
  'agent list': (_, context) => ({ ok: true, text: agentsText(context) }),
  'agent status': (request, context) =>
    withKnown(request, context, async (agent) => {
      const folder = (await context.trust?.status(agent)) ?? null;
      const lines = [...(context.roster.status(agent) ?? [agent]), folder, context.runs?.totals(agent) ?? null];
      return { ok: true, text: lines.filter((line) => line !== null).join('\n') };
    }),
  'agent enable': (request, context) =>
    withKnown(request, context, (agent) => switchAgent(request, { type: 'enable', agent }, context)),
  'agent disable': (request, context) =>
    withKnown(request, context, (agent) => switchAgent(request, { type: 'disable', agent }, context)),
  'agent restart': (request, context) => withKnown(request, context, (agent) => context.roster.restart(agent)),
  'agent trust': (request, context) => withTrust('trust', request, context),
  'agent distrust': (request, context) => withTrust('distrust', request, context),
  stop: (request, context) => withFloor(request, context, () => runStop(request, context)),
  allow: (request, context) => withFloor(request, context, () => runAnswer(request, 'allow', context)),
  answer: (request, context) => withFloor(request, context, () => runAnswer(request, 'words', context)),
  reject: (request, context) => withFloor(request, context, () => runAnswer(request, 'reject', context)),
  'run start': (request, context) => withRun('start', request, context),
  'run status': (request, context) => withRun('status', request, context),
  'run log': (request, context) => withRun('log', request, context),
  'run approvals': (request, context) => withRun('approvals', request, context),
  'run revoke': (request, context) => withRun('revoke', request, context),
  'run pause': (request, context) => withRun('pause', request, context),
  'run resume': (request, context) => withRun('resume', request, context),
  'run continue': (request, context) => withRun('continue', request, context),
  'run complete': (request, context) => withRun('complete', request, context),
  'run abort': (request, context) => withRun('abort', request, context),
  'run retry': (request, context) => withRun('retry', request, context),
  queue: (request, context) => withView(request, context, (view) => queueText(view, context)),
  why: ({ channel, values: { message = '' } }, context) => {
    const text = whyText(channel, message, context);
    return text === null
      ? { ok: false, text: `This channel received no message ${quoted(message)}.` }
      : { ok: true, text };
  },
  whoami: ({ person }, context) => ({ ok: true, text: whoamiText(person, operates(person, context)) }),
  help: ({ values: { command } }) => {
    const text = helpText(command);
    return text === null ? { ok: false, text: noHelp(command ?? '') } : { ok: true, text };
  },
};

const DEFAULT_LOG_COUNT = 10;

/** Why a button counts for nothing: it was drawn for another store, or for a question that is over. Its turn is checked by the floor. */
function overFor({ channel, drawnFor }: Request, context: CommandContext): string | null {
  const view = context.floors.view(channel);
  if (drawnFor === undefined || view === null) return null;
  if (drawnFor.of === 'turn') return drawnFor.store === view.store ? null : OVER.turn;
  if (askedWith(view, drawnFor.key) !== null) return null;
  return context.runs?.answered(channel, drawnFor) ?? OVER.question;
}

function operates(person: Person, context: CommandContext): boolean {
  const agents = context.roster.list().map((agent) => agent.id);
  return mayOperate(person, context.operators(), agents);
}

/** Why somebody may not give a command, judged anew at every use; what an agent asks may be left to some people alone. */
function refusalTo({ path }: Invocation, { channel, person, values }: Request, context: CommandContext): string | null {
  const isAnswer = (path === 'allow' || path === 'answer' || path === 'reject') && values.question !== undefined;
  const approvers = isAnswer ? (context.runs?.approvers(channel, values.question ?? 0) ?? null) : null;
  if (approvers !== null && 'only' in approvers) {
    const agents = context.roster.list().map(({ id }) => id);
    const named = { users: approvers.only, roles: approvers.only };
    return mayOperate(person, named, agents) ? null : `Only these may decide that: ${list(approvers.only, String)}.`;
  }
  if (!operates(person, context)) {
    const named = { question: values.question ?? 0 };
    const before = isAnswer ? (context.runs?.answered(channel, named) ?? null) : null;
    if (before !== null) return before;
    const how = `Your id is ${person.id}; add it to "operators" in turnConfig.json.`;
    return `Only operators may use /${path}. ${how}`;
  }
  return approvers?.not.includes(person.id) === true
    ? 'Another operator must decide that, because the run was started by your message.'
    : null;
}

function withFloor(
  request: Request,
  context: CommandContext,
  run: (view: FloorView) => Answer | Promise<Answer>,
): Answer | Promise<Answer> {
  const view = context.floors.view(request.channel);
  const text = 'This channel has no floor: add it to "channels" in turnConfig.json.';
  return view === null ? { ok: false, text } : run(view);
}

function withView(
  request: Request,
  context: CommandContext,
  text: (view: FloorView) => string,
): Answer | Promise<Answer> {
  return withFloor(request, context, (view) => ({ ok: true, text: text(view) }));
}

function withRun(verb: RunVerb, request: Request, context: CommandContext): Answer | Promise<Answer> {
  const act = (agent: AgentId | null): Answer | Promise<Answer> =>
    context.runs?.run(verb, agent, request) ?? { ok: false, text: 'This channel has no runs.' };
  const { agent } = request.values;
  if (agent === undefined) return withFloor(request, context, () => act(null));
  const values = { ...request.values, agent: agent.replace(/\+$/, '') };
  return withAgent({ ...request, values }, context, act);
}

/** An agent that is no longer trusted is started anew, so that its sessions end at once. */
function withTrust(verb: 'trust' | 'distrust', request: Request, context: CommandContext): Answer | Promise<Answer> {
  return withKnown(request, context, async (agent) => {
    const { trust, roster } = context;
    if (trust === undefined) return { ok: false, text: 'No agent here has a folder.' };
    const answer = await trust[verb](agent, request.values.words?.trim().toLowerCase() ?? null, request);
    if (verb === 'distrust' && answer.ok) await roster.restart(agent);
    return answer;
  });
}

function withAgent(
  request: Request,
  context: CommandContext,
  run: (agent: AgentId) => Answer | Promise<Answer>,
): Answer | Promise<Answer> {
  return withFloor(request, context, () => withKnown(request, context, run));
}

function withKnown(
  request: Request,
  context: CommandContext,
  run: (agent: AgentId) => Answer | Promise<Answer>,
): Answer | Promise<Answer> {
  const found = findAgent(request.values.agent ?? '', context.roster.list());
  return found.ok ? run(found.agent) : { ok: false, text: found.message };
}

function withQueue(request: Request, context: CommandContext): Answer | Promise<Answer> {
  const found = (request.values.agents ?? []).map((word) => findAgent(word, context.roster.list()));
  const missing = found.find((each) => !each.ok);
  if (missing !== undefined) return { ok: false, text: missing.message };
  return runOrder(
    request,
    found.flatMap((each) => (each.ok ? [each.agent] : [])),
    context,
  );
}

/** The agent that a person meant, or one sentence that says whom they could have meant. */
type Lookup = { readonly ok: true; readonly agent: AgentId } | { readonly ok: false; readonly message: string };

/** Finds an agent by its id, in any case, or by its display name if only one has it. */
export function findAgent(word: string, agents: readonly RosterEntry[]): Lookup {
  const wanted = word.toLowerCase();
  const exact = agents.find((agent) => agent.id === word) ?? agents.find((agent) => agent.id.toLowerCase() === wanted);
  if (exact !== undefined) return { ok: true, agent: exact.id };
  const named = agents.filter((agent) => agent.name.toLowerCase() === wanted);
  const [one, other] = named;
  if (one !== undefined && other === undefined) return { ok: true, agent: one.id };
  const ids = agents.map((agent) => agent.id);
  if (one !== undefined) {
    const same = list(
      named.map((agent) => agent.id),
      String,
    );
    return { ok: false, message: `Several agents are named ${quoted(word)}. Use an id: ${same}.` };
  }
  const meant =
    didYouMean(word, ids) ||
    didYouMean(
      word,
      agents.map((agent) => agent.name),
    );
  return { ok: false, message: `There is no agent ${quoted(word)}.${meant} Agents: ${list(ids, String)}.` };
}
