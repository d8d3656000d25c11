import { MODES, POLICIES } from '../floor/policies.ts';
import type { OperatorCommand } from '../floor/command.ts';
import type { Refusal } from '../floor/refusals.ts';
import type { Fact } from '../floor/fact.ts';
import type { AgentId, ChannelId, Choice, Question } from '../floor/settings.ts';
import type { FloorView } from '../view.ts';
import { checkForm } from './check-form.ts';
import { clockWords, counted } from './clock-words.ts';
import type {
  Answer,
  CommandContext,
  Person,
  Request,
  CrewVerb,
  ReviewCommands,
  RosterEntry,
  RunVerb,
} from './context.ts';
import {
  agentsText,
  floorLine,
  helpText,
  logText,
  modeText,
  noHelp,
  orderText,
  questionLines,
  queueText,
  statusText,
  whoamiText,
  whyText,
} from './read.ts';
import { requestByNumber, requestByKey, isAnswerTo } from '../floor/seats.ts';
import { readDrawnFor } from '../drawn-for.ts';
import { parseLine, quoted } from './parse.ts';
import type { Invocation } from './parse.ts';
import { mayOperate } from './context.ts';
import type { CommandPath } from './command-table.ts';
import { list } from './fact-words.ts';
import { defined } from '../../lib/defined.ts';
import { didYouMean } from '../../lib/nearest.ts';

/** Runs command lines that people give. */
export type Operators = {
  /**
   * Parses a line, checks the person's rights, runs the command and answers. A refused command changes nothing; the
   * answer says why. Rejects when the floor cannot be written. `drawnFor`: names the question or turn of the
   * pressed button; absent without a button.
   */
  run(channel: ChannelId, person: Person, line: string, drawnFor?: string): Promise<Answer>;
  /** Returns why `run` would refuse the person now, or `null`; `null` also for a line that is no command. */
  refusal(channel: ChannelId, person: Person, line: string, drawnFor?: string): string | null;
};

/** Creates the runner of commands for the floors and agents of `context`. */
export function createOperators(context: CommandContext): Operators {
  return {
    async run(channel, person, line, word) {
      const parsed = readRequest({ channel, person, line, word }, context);
      if (!parsed.ok) return { ok: false, text: parsed.message };
      const { invocation, request, refusal } = parsed;
      if (invocation.needs === 'read') return RUN[invocation.path]({ ...request, context });
      const answer =
        refusal === null ? await RUN[invocation.path]({ ...request, context }) : { ok: false as const, text: refusal };
      // The record leaves out answers, because a form can promise that nobody is shown its answer.
      const recordedLine = invocation.path === 'answer' ? `/answer ${request.values.question ?? ''}`.trim() : line;
      context.audit?.({ channel, by: person.id, line: recordedLine, ...answer });
      return answer;
    },
    refusal(channel, person, line, word) {
      const parsed = readRequest({ channel, person, line, word }, context);
      return parsed.ok ? parsed.refusal : null;
    },
  };
}

type CommandInput = {
  readonly channel: ChannelId;
  readonly person: Person;
  readonly line: string;
  readonly word: string | undefined;
};

function readRequest({ channel, person, line, word }: CommandInput, context: CommandContext) {
  const parsed = parseLine(line);
  if (!parsed.ok) return parsed;
  const { invocation } = parsed;
  const drawnFor = word === undefined ? undefined : readDrawnFor(word);
  const pressed = drawnFor == null ? {} : { drawnFor };
  const request: Request = { channel, person, values: invocation.values, ...pressed };
  if (invocation.needs === 'read') return { ok: true as const, invocation, request, refusal: null };
  const over = drawnFor === null ? OUTDATED.turn : outdatedAnswer(request, context);
  return { ok: true as const, invocation, request, refusal: over ?? refusalTo(invocation, request, context) };
}

type Call = Request & { readonly context: CommandContext };

type Answering = Answer | Promise<Answer>;
type Run = (call: Call) => Answering;

type Act = { readonly command: OperatorCommand; readonly did: (facts: readonly Fact[]) => string };

/** The implementation of each command. The person's rights were checked before. */
const RUN: Readonly<Record<CommandPath, Run>> = {
  'floor status': shows((view, { context }) => statusText(view, context)),
  'floor start': acts(({ person }) => ({ command: { type: 'start', by: person.id }, did: () => 'Started.' })),
  'floor grant': actsOn(({ person, context }, agent) => ({
    command: { type: 'grant', by: person.id, agent },
    did(facts) {
      const now = facts.some(
        (fact) => (fact.type === 'turnGranted' || fact.type === 'turnResumed') && fact.agent === agent,
      );
      return `${context.names.agent(agent)} ${now ? 'holds the floor' : 'is next'}.`;
    },
  })),
  'floor skip': (call) => (call.values.agent === undefined ? acts(skip)(call) : actsOn(skip)(call)),
  'floor extend': acts(extend),
  'floor pause': acts((call) => ({
    command: { type: 'pause', by: call.person.id, ...drawnIn(call) },
    did: () => '⏸ Paused: no new turns until /floor resume.',
  })),
  'floor resume': acts((call) => ({
    command: { type: 'resume', by: call.person.id, ...drawnIn(call) },
    did: () => '▶️ Resumed.',
  })),
  'floor order': onFloor((call, view) => order(call, view)),
  'floor mode': onFloor((call, view) => {
    const { mode } = call.values;
    if (mode === undefined) return { ok: true, text: modeText(view) };
    const command = { type: 'mode', by: call.person.id, mode } as const;
    return carryOut(call, view, { command, did: () => `Mode: ${mode}, ${MODES[mode].summary}.` });
  }),
  'floor add': actsOn(add),
  'floor remove': actsOn(({ person, context }, agent) => ({
    command: { type: 'remove', by: person.id, agent },
    did: () => `${context.names.agent(agent)} was removed from this channel.`,
  })),
  'floor log': shows((_, { channel, values, context }) => logText(channel, values.count ?? DEFAULT_LOG_COUNT, context)),
  'agent list': ({ context }) => ({ ok: true, text: agentsText(context) }),
  'agent status': onAgent(async ({ context }, agent) => {
    const folder = (await context.trust?.status(agent)) ?? null;
    const lines = [...(context.roster.status(agent) ?? [agent]), folder, context.runs?.totals(agent) ?? null];
    return { ok: true, text: lines.filter((line) => line !== null).join('\n') };
  }),
  'agent enable': onAgent((call, agent) => switchAgent(call, 'enable', agent)),
  'agent disable': onAgent((call, agent) => switchAgent(call, 'disable', agent)),
  'agent restart': onAgent(({ context }, agent) => context.roster.restart(agent)),
  'agent trust': trusts('trust'),
  'agent distrust': trusts('distrust'),
  stop: acts(stop),
  allow: onFloor((call, view) => decide(call, view, 'allow')),
  answer: onFloor((call, view) => decide(call, view, 'words')),
  reject: onFloor((call, view) => decide(call, view, 'reject')),
  'run start': ofRuns('start'),
  'run status': ofRuns('status'),
  'run log': ofRuns('log'),
  'run approvals': ofRuns('approvals'),
  'run revoke': ofRuns('revoke'),
  'run pause': ofRuns('pause'),
  'run resume': ofRuns('resume'),
  'run continue': ofRuns('continue'),
  'run complete': ofRuns('complete'),
  'run abort': ofRuns('abort'),
  'run retry': ofRuns('retry'),
  'review start': ofReviews((reviews, call) =>
    onAgent((_, primary) => {
      const found = findAgent(call.values.reviewer ?? '', call.context.roster.list());
      return found.ok ? reviews.start(call, { primary, reviewer: found.agent }) : { ok: false, text: found.message };
    })(call),
  ),
  'review status': ofReviews((reviews, call) => reviews.status(call)),
  'review export': ofReviews((reviews, call) => reviews.export(call)),
  'review diff': ofReviews((reviews, call) => reviews.diff(call)),
  'review accept': ofReviews((reviews, call) => reviews.accept(call)),
  'review uphold': ofReviews((reviews, call) => reviews.uphold(call)),
  'review more': ofReviews((reviews, call) => reviews.more(call)),
  'review cancel': ofReviews((reviews, call) => reviews.cancel(call)),
  'crew run': ofCrews('run'),
  'crew stop': ofCrews('stop'),
  'crew spawn': ofCrews('spawn'),
  'crew assign': ofCrews('assign'),
  'crew ps': ofCrews('ps'),
  'crew dashboard': ofCrews('dashboard'),
  'crew peek': ofCrews('peek'),
  'crew logs': ofCrews('logs'),
  'crew why': ofCrews('why'),
  'crew export': ofCrews('export'),
  'crew answer': ofCrews('answer'),
  'crew merge': ofCrews('merge'),
  'crew hold': ofCrews('hold'),
  'crew retry': ofCrews('retry'),
  'crew kill': ofCrews('kill'),
  'crew cleanup': ofCrews('cleanup'),
  'crew update': ofCrews('update'),
  'crew accept': ofCrews('accept'),
  'crew decline': ofCrews('decline'),
  'crew clean': ofCrews('clean'),
  'crew kept': ofCrews('kept'),
  'crew doctor': ofCrews('doctor'),
  'crew tickets': ofCrews('tickets'),
  'crew admit': ofCrews('admit'),
  'crew drop': ofCrews('drop'),
  queue: shows((view, { context }) => queueText(view, context)),
  why({ channel, values: { message = '' }, context }) {
    const text = whyText(channel, message, context);
    return text === null
      ? { ok: false, text: `This channel received no message ${quoted(message)}.` }
      : { ok: true, text };
  },
  whoami: ({ person, context }) => ({ ok: true, text: whoamiText(person, operates(person, context)) }),
  help({ values: { command } }) {
    const text = helpText(command);
    return text === null ? { ok: false, text: noHelp(command ?? '') } : { ok: true, text };
  },
};

const DEFAULT_LOG_COUNT = 10;
const DEFAULT_EXTENSION_SECONDS = 60;

function onFloor(run: (call: Call, view: FloorView) => Answering): Run {
  return (call) => {
    const view = call.context.floors.view(call.channel);
    const text = 'This channel has no floor: add it to "channels" in turnConfig.json.';
    return view === null ? { ok: false, text } : run(call, view);
  };
}

function onAgent(run: (call: Call, agent: AgentId) => Answering): Run {
  return (call) => {
    const found = findAgent(call.values.agent ?? '', call.context.roster.list());
    return found.ok ? run(call, found.agent) : { ok: false, text: found.message };
  };
}

function shows(text: (view: FloorView, call: Call) => string): Run {
  return onFloor((call, view) => ({ ok: true, text: text(view, call) }));
}

function acts(act: (call: Call, view: FloorView) => Act): Run {
  return onFloor((call, view) => carryOut(call, view, act(call, view)));
}

function actsOn(act: (call: Call, agent: AgentId) => Act): Run {
  return onFloor((call, view) => onAgent((named, agent) => carryOut(named, view, act(named, agent)))(call));
}

/** Returns the implementation of a command about runs. A "+" after the agent's name means its background run. */
function ofRuns(verb: RunVerb): Run {
  const run = (call: Call, agent: AgentId | null): Answering =>
    call.context.runs?.run(verb, agent, call) ?? { ok: false, text: 'This channel has no runs.' };
  return onFloor((call) => {
    const { agent } = call.values;
    if (agent === undefined) return run(call, null);
    const unmarked = { ...call, values: { ...call.values, agent: agent.replace(/\+$/, '') } };
    return onAgent((_, found) => run(call, found))(unmarked);
  });
}

function ofCrews(verb: CrewVerb): Run {
  return onFloor((call) => call.context.crews?.run(verb, call) ?? { ok: false, text: 'No crew works here.' });
}

function ofReviews(run: (reviews: ReviewCommands, call: Call) => Answering): Run {
  return onFloor((call) => {
    const { reviews } = call.context;
    return reviews === undefined ? { ok: false, text: 'This channel has no reviews.' } : run(reviews, call);
  });
}

/**
 * Changes the trust in an agent's folder. After a successful "distrust" the agent is restarted, which ends its sessions
 * at once.
 */
function trusts(verb: 'trust' | 'distrust'): Run {
  return onAgent(async (call, agent) => {
    const { trust, roster } = call.context;
    if (trust === undefined) return { ok: false, text: 'No agent here has a folder with files to trust.' };
    const answer = await trust[verb](agent, call.values.words?.trim().toLowerCase() ?? null, call);
    if (verb === 'distrust' && answer.ok) await roster.restart(agent);
    return answer;
  });
}

function skip(call: Call, named: AgentId | FloorView): Act {
  const { person, context } = call;
  const agent = typeof named === 'string' ? named : undefined;
  return {
    command: { type: 'skip', by: person.id, ...defined({ agent }), ...drawnIn(call) },
    did(facts) {
      const ended = facts.find((fact) => fact.type === 'turnEnded');
      return ended === undefined ? 'Skipped.' : `Skipped ${context.names.agent(ended.agent)}.`;
    },
  };
}

function extend(call: Call): Act {
  const ms = (call.values.seconds ?? DEFAULT_EXTENSION_SECONDS) * 1_000;
  return {
    command: { type: 'extend', by: call.person.id, ms, ...drawnIn(call) },
    did(facts) {
      const extended = facts.find((fact) => fact.type === 'turnExtended');
      const who = extended === undefined ? 'The agent' : call.context.names.agent(extended.agent);
      return `${who} has ${clockWords(ms)} more.`;
    },
  };
}

function stop(call: Call): Act {
  return {
    command: { type: 'stop', by: call.person.id, ...drawnIn(call) },
    did(facts) {
      const stopped = facts
        .flatMap((fact) => (fact.type === 'announced' ? [fact.announcement] : []))
        .find((notice) => notice.kind === 'stopped');
      if (stopped === undefined) return '⏹ Stopped.';
      const whom = stopped.agent === null ? '' : ` ${call.context.names.agent(stopped.agent)}`;
      return `⏹ Stopped${whom}. ${counted(stopped.kept, 'message')} kept.`;
    },
  };
}

function order(call: Call, view: FloorView): Answering {
  const { values, person, context } = call;
  const policy = values.order;
  if (policy === undefined) return { ok: true, text: orderText(view, context.names.agent) };
  if (policy === 'review' && (context.reviews?.agents(call.channel) ?? null) === null)
    return {
      ok: false,
      text: 'The order "review" needs review.primary and review.reviewer of this channel in turnConfig.json.',
    };
  const queue: AgentId[] = [];
  for (const word of values.agents ?? []) {
    const found = findAgent(word, context.roster.list());
    if (!found.ok) return { ok: false, text: found.message };
    queue.push(found.agent);
  }
  const queued = queue.length === 0 ? '' : ` Queue: ${list(queue, context.names.agent)}.`;
  const named = queue.length === 0 ? {} : { queue };
  return carryOut(call, view, {
    command: { type: 'order', by: person.id, order: policy, ...named },
    did: () => `Order: ${policy}, ${POLICIES[policy].summary}.${queued}`,
  });
}

function add({ channel, person, context }: Call, agent: AgentId): Act {
  const seat = context.seat?.(channel, agent) ?? null;
  const name = context.names.agent(agent);
  return {
    command: { type: 'add', by: person.id, agent, ...(seat === null ? {} : { seat }) },
    did(facts) {
      const moved = facts.some((fact) => fact.type === 'seatMoved' && fact.agent === agent && fact.to === 'QUEUED');
      return moved ? `${name} is in the queue.` : `${name} joins the queue when it is online.`;
    },
  };
}

async function switchAgent({ person, context }: Call, type: 'enable' | 'disable', agent: AgentId): Promise<Answer> {
  const name = context.names.agent(agent);
  const channels = context.roster.list().find((each) => each.id === agent)?.channels ?? [];
  if (channels.length === 0) return { ok: false, text: `${name} is in no channel. To add it: /floor add ${agent}` };
  const applied = await Promise.all(
    channels.map((channel) => context.floors.apply(channel, { type, agent, by: person.id })),
  );
  const refusals = applied.flatMap((each) => (each.ok ? [] : [each.refusal]));
  const changed = applied.length - refusals.length;
  const [refusal] = refusals;
  if (changed === 0 && refusal !== undefined) return refused(refusal, agent, context);
  return { ok: true, text: `${type === 'enable' ? 'Enabled' : 'Disabled'} ${name} in ${counted(changed, 'channel')}.` };
}

/**
 * Decides exactly the question with the given number: another question may be open by the time the command arrives. A
 * button decides only the question that it was drawn for, even if another question has its number now. Without a number
 * nothing is decided, and the answer lists the open questions.
 */
async function decide(call: Call, view: FloorView, how: Choice | 'words'): Promise<Answer> {
  const { context, channel, drawnFor } = call;
  const { question, scope, count = 1, words: reason } = call.values;
  if (question === undefined)
    return { ok: false, text: questionLines(view, context.names.agent).join('\n') || NO_OPEN_REQUEST };
  const key = drawnFor?.of === 'question' ? drawnFor.key : undefined;
  const named = { question, ...defined({ key }) };
  const found = requestByNumber(view, question)?.question ?? null;
  const request = found !== null && isAnswerTo(found, named) ? found : null;
  const wrong = request === null || how === 'reject' ? null : errorIn(request, how, reason);
  if (wrong !== null) return { ok: false, ...wrong };
  const choice = how === 'words' ? 'allow' : how;
  const always = scope === 'always' ? request?.always?.[count - 1]?.rule : undefined;
  if (scope === 'always' && request !== null && always === undefined)
    return { ok: false, text: `No such “always” rule is available for this request. Use /allow ${question}` };
  const did = (): string => {
    if (choice === 'reject') return request?.about?.answer === undefined ? 'Denied.' : 'Declined.';
    if (how === 'words') return 'Answered.';
    return always === undefined ? 'Allowed once.' : `Always allowed: ${always}. To revoke it: /run approvals`;
  };
  const { id: by, name } = call.person;
  const command = { type: 'decide', by, name, choice, ...named, ...defined({ reason, always }) } as const;
  const answer = await carryOut(call, view, { command, did });
  if (answer.ok) return answer;
  const before = context.runs?.answered(channel, key === undefined ? { question } : { key }) ?? null;
  return before === null ? answer : { ok: false, text: before };
}

const NO_OPEN_REQUEST = 'No request is open here: /floor status shows the floor.';

function errorIn(
  { question, about }: Question,
  how: 'allow' | 'words',
  words: string | undefined,
): Omit<Answer, 'ok'> | null {
  if (about?.answer === undefined)
    return how === 'allow'
      ? null
      : { text: `Request ${question} takes no answer in words. Use /allow ${question} or /reject ${question}` };
  if (about.form === undefined) return null;
  if (words === undefined) return { text: `Use /answer ${question} ${about.answer}, or /reject ${question}` };
  const checked = checkForm(words, about.form);
  return checked.ok ? null : { text: checked.text, fields: checked.fields };
}

const OUTDATED = { turn: 'That turn is over.', question: 'That request is closed.' } as const;

function drawnIn({ drawnFor }: Request): { readonly epoch?: number } {
  return drawnFor?.of === 'turn' ? { epoch: drawnFor.epoch } : {};
}

async function carryOut({ channel, context }: Call, { holder }: FloorView, { command, did }: Act): Promise<Answer> {
  const applied = await context.floors.apply(channel, command);
  if (!applied.ok) return refused(applied.refusal, 'agent' in command ? command.agent : holder?.agent, context);
  const view = context.floors.view(channel);
  const after = view === null ? '' : `\n${floorLine(view, context.names.agent, context.clock.now())}`;
  return { ok: true, text: `${did(applied.facts)}${after}` };
}

function refused(refusal: Refusal, agent: AgentId | undefined, context: CommandContext): Answer {
  if (refusal === 'stale-epoch') return { ok: false, text: OUTDATED.turn };
  const whom = agent === undefined ? {} : { agent: context.names.agent(agent) };
  return { ok: false, text: context.words.refusal(refusal, whom) };
}

/**
 * Returns a refusal when the pressed button is for a closed question or another store's turn; else `null`. Whether the
 * button's turn is over, the floor itself checks.
 */
function outdatedAnswer({ channel, drawnFor }: Request, context: CommandContext): string | null {
  const view = context.floors.view(channel);
  if (drawnFor === undefined || view === null) return null;
  if (drawnFor.of === 'turn') return drawnFor.store === view.store ? null : OUTDATED.turn;
  if (requestByKey(view, drawnFor.key) !== null) return null;
  return context.runs?.answered(channel, drawnFor) ?? OUTDATED.question;
}

function operates(person: Person, context: CommandContext, named = context.operators()): boolean {
  const agents = context.roster.list().map(({ id }) => id);
  return mayOperate(person, named, agents);
}

function refusalTo({ path }: Invocation, { channel, person, values }: Request, context: CommandContext): string | null {
  const isAnswer = (path === 'allow' || path === 'answer' || path === 'reject') && values.question !== undefined;
  const approvers = isAnswer ? (context.runs?.approvers(channel, values.question ?? 0) ?? null) : null;
  if (approvers !== null && 'only' in approvers) {
    const named = { users: approvers.only, roles: approvers.only };
    return operates(person, context, named)
      ? null
      : `Only these people or roles may decide this request: ${list(approvers.only, String)}.`;
  }
  if (!operates(person, context)) {
    const named = { question: values.question ?? 0 };
    const before = isAnswer ? (context.runs?.answered(channel, named) ?? null) : null;
    if (before !== null) return before;
    const how = `Your id is ${person.id}; add it to "operators" in turnConfig.json.`;
    return `Only operators may use /${path}. ${how}`;
  }
  return approvers?.not.includes(person.id) === true
    ? 'Another operator must decide this request, because your message started the run.'
    : null;
}

type Lookup = { readonly ok: true; readonly agent: AgentId } | { readonly ok: false; readonly message: string };

/** Finds an agent by its id, in any letter case, or by its display name if it is unique. */
export function findAgent(word: string, agents: readonly RosterEntry[]): Lookup {
  const wanted = word.toLowerCase();
  const exact = agents.find((agent) => agent.id === word) ?? agents.find((agent) => agent.id.toLowerCase() === wanted);
  if (exact !== undefined) return { ok: true, agent: exact.id };
  const named = agents.filter((agent) => agent.name.toLowerCase() === wanted);
  const [first, second] = named;
  if (first !== undefined && second === undefined) return { ok: true, agent: first.id };
  const ids = agents.map((agent) => agent.id);
  if (first !== undefined) {
    const same = list(
      named.map((agent) => agent.id),
      String,
    );
    return { ok: false, message: `Several agents are named ${quoted(word)}. Use an id: ${same}.` };
  }
  const suggestion =
    didYouMean(word, ids) ||
    didYouMean(
      word,
      agents.map((agent) => agent.name),
    );
  return { ok: false, message: `There is no agent ${quoted(word)}.${suggestion} Agents: ${list(ids, String)}.` };
}
