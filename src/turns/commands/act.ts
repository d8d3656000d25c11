import { MODES, POLICIES } from '../floor/policies.ts';
import type { OperatorCommand, Refusal } from '../floor/command.ts';
import type { Fact } from '../floor/fact.ts';
import type { AgentId, Choice, Question } from '../floor/settings.ts';
import { checkForm } from './check-form.ts';
import { clockWords, counted } from './clock-words.ts';
import type { Answer, CommandContext, Request } from './context.ts';
import { list } from './fact-words.ts';
import { floorLine, questionLines } from './read.ts';
import { askedAs, isAnswerTo } from '../floor/seats.ts';
import { defined } from '../../lib/defined.ts';

/** What to do to the floor of the request's channel, and how to say that it was done. */
type Act = {
  readonly command: OperatorCommand;
  /** Whom it is about, for refusals. */
  readonly agent?: AgentId;
  readonly did: (facts: readonly Fact[]) => string;
};

/** Ends the turn, closes the exchange, keeps held messages. */
export function runStop(request: Request, context: CommandContext): Promise<Answer> {
  const did = (facts: readonly Fact[]): string => {
    const stopped = facts
      .flatMap((fact) => (fact.type === 'announced' ? [fact.announcement] : []))
      .find((notice) => notice.kind === 'stopped');
    const whom = stopped?.agent === null || stopped === undefined ? '' : ` ${context.names.agent(stopped.agent)}`;
    const kept = stopped === undefined ? '' : ` ${counted(stopped.kept, 'message')} kept.`;
    return `⏹ Stopped${whom}.${kept}`;
  };
  return apply(request, { command: { type: 'stop', by: request.person.id, ...drawnIn(request) }, did }, context);
}

/** Opens an exchange without a message. */
export function runStart(request: Request, context: CommandContext): Promise<Answer> {
  return apply(request, { command: { type: 'start', by: request.person.id }, did: () => 'Started.' }, context);
}

/** Gives an agent the floor, or the next turn when another has it. */
export function runGrant(request: Request, agent: AgentId, context: CommandContext): Promise<Answer> {
  const did = (facts: readonly Fact[]): string => {
    const now = facts.some(
      (fact) => (fact.type === 'turnGranted' || fact.type === 'turnResumed') && fact.agent === agent,
    );
    return `${context.names.agent(agent)} ${now ? 'holds the floor' : 'is next'}.`;
  };
  return apply(request, { command: { type: 'grant', by: request.person.id, agent }, agent, did }, context);
}

/** Ends a turn. */
export function runSkip(request: Request, agent: AgentId | undefined, context: CommandContext): Promise<Answer> {
  const named = defined({ agent });
  const did = (facts: readonly Fact[]): string => {
    const ended = facts.find((fact) => fact.type === 'turnEnded');
    return ended === undefined ? 'Skipped.' : `Skipped ${context.names.agent(ended.agent)}.`;
  };
  return apply(
    request,
    { command: { type: 'skip', by: request.person.id, ...named, ...drawnIn(request) }, ...named, did },
    context,
  );
}

/** Gives the holder more time. */
export async function runExtend(request: Request, context: CommandContext): Promise<Answer> {
  const holder = context.floors.view(request.channel)?.holder ?? null;
  const ms = (request.values.seconds ?? DEFAULT_EXTENSION_SECONDS) * 1_000;
  const who = holder === null ? 'The holder' : context.names.agent(holder.agent);
  const did = (): string => `${who} has ${clockWords(ms)} more.`;
  const command = { type: 'extend', by: request.person.id, ms, ...drawnIn(request) } as const;
  return apply(request, { command, did }, context);
}

/**
 * Answers the question with the number that was given, and no other: by the time a command or a click arrives another one
 * may be open. A button answers only the question that it was drawn for, whatever has its number now. Without a number nothing is
 * decided, and the answer says what is asked.
 */
export async function runAnswer(request: Request, how: Choice | 'words', context: CommandContext): Promise<Answer> {
  const { question } = request.values;
  const view = context.floors.view(request.channel);
  if (question === undefined) {
    const asked = view === null ? [] : questionLines(view, context.names.agent);
    return { ok: false, text: asked.join('\n') || NOBODY_ASKS };
  }
  const { scope, count = 1, words: reason } = request.values;
  const key = request.drawnFor?.of === 'question' ? request.drawnFor.key : undefined;
  const named = { question, ...defined({ key }) };
  const found = view === null ? null : (askedAs(view, question)?.question ?? null);
  const asked = found !== null && isAnswerTo(found, named) ? found : null;
  const wrong = asked === null || how === 'reject' ? null : wrongWith(asked, how, reason);
  if (wrong !== null) return { ok: false, ...wrong };
  const choice = how === 'words' ? 'allow' : how;
  const always = scope === 'always' ? asked?.always?.[count - 1]?.rule : undefined;
  if (scope === 'always' && asked !== null && always === undefined)
    return { ok: false, text: `No such “always” rule is available for this request. Use /allow ${question}` };
  const more = defined({ reason, always });
  const did = (): string => {
    if (choice === 'reject') return asked?.about?.answer === undefined ? 'Denied.' : 'Declined.';
    if (how === 'words') return 'Answered.';
    return always === undefined ? 'Allowed once.' : `Always allowed: ${always}. To revoke it: /run approvals`;
  };
  const { id: by, name } = request.person;
  const command = { type: 'decide', by, name, choice, ...named, ...more } as const;
  const answer = await apply(request, { command, did }, context);
  const before = answer.ok
    ? null
    : (context.runs?.answered(request.channel, key === undefined ? { question } : { key }) ?? null);
  return before === null ? answer : { ok: false, text: before };
}

/** What keeps an answer from being taken: a form is filled in by words alone, and nothing else takes any. */
function wrongWith(
  { question, about }: Question,
  how: 'allow' | 'words',
  words: string | undefined,
): Omit<Answer, 'ok'> | null {
  if (about?.answer === undefined)
    return how === 'allow'
      ? null
      : { text: `Request ${question} takes no words. Use /allow ${question} or /reject ${question}` };
  if (about.form === undefined) return null;
  if (words === undefined) return { text: `Use /answer ${question} ${about.answer}, or /reject ${question}` };
  const checked = checkForm(words, about.form);
  return checked.ok ? null : { text: checked.text, fields: checked.fields };
}

/** Grants nothing more until `resume`. */
export function runPause(request: Request, context: CommandContext): Promise<Answer> {
  const did = (): string => '⏸ Paused: no new turns until /floor resume.';
  return apply(request, { command: { type: 'pause', by: request.person.id, ...drawnIn(request) }, did }, context);
}

/** Goes on after a pause or a limit. */
export function runResume(request: Request, context: CommandContext): Promise<Answer> {
  const command = { type: 'resume', by: request.person.id, ...drawnIn(request) } as const;
  return apply(request, { command, did: () => '▶️ Resumed.' }, context);
}

/** Changes the policy, and the queue if agents were named. */
export async function runOrder(request: Request, queue: readonly AgentId[], context: CommandContext): Promise<Answer> {
  const policy = request.values.order;
  if (policy === undefined) return { ok: false, text: 'Name an order: /floor order [policy] [agents…]' };
  const named = queue.length === 0 ? {} : { queue };
  const did = (): string =>
    `Order: ${policy}, ${POLICIES[policy].summary}.${queue.length === 0 ? '' : ` Queue: ${list(queue, context.names.agent)}.`}`;
  return apply(request, { command: { type: 'order', by: request.person.id, order: policy, ...named }, did }, context);
}

/** Changes what a message does to a turn under way. */
export async function runMode(request: Request, context: CommandContext): Promise<Answer> {
  const chosen = request.values.mode;
  if (chosen === undefined) return { ok: false, text: 'Name a mode: /floor mode [mode]' };
  const did = (): string => `Mode: ${chosen}, ${MODES[chosen].summary}.`;
  return apply(request, { command: { type: 'mode', by: request.person.id, mode: chosen }, did }, context);
}

/** Puts an agent at the end of the queue, with a new seat if the channel had none for it and allows one. */
export function runAdd(request: Request, agent: AgentId, context: CommandContext): Promise<Answer> {
  const seat = context.seat?.(request.channel, agent) ?? null;
  const name = context.names.agent(agent);
  const did = (facts: readonly Fact[]): string => {
    const moved = facts.some((fact) => fact.type === 'seatMoved' && fact.agent === agent && fact.to === 'QUEUED');
    return moved ? `${name} is in the queue.` : `${name} joins the queue when it is online.`;
  };
  const command = { type: 'add', by: request.person.id, agent, ...(seat === null ? {} : { seat }) } as const;
  return apply(request, { command, agent, did }, context);
}

/** Takes an agent out of the channel; its turn ends. */
export function runRemove(request: Request, agent: AgentId, context: CommandContext): Promise<Answer> {
  const did = (): string => `${context.names.agent(agent)} was removed from this channel.`;
  return apply(request, { command: { type: 'remove', by: request.person.id, agent }, agent, did }, context);
}

/** Enables or disables an agent in all its channels; it succeeds if one of them changed. */
export async function switchAgent(
  request: Request,
  change: { readonly type: 'enable' | 'disable'; readonly agent: AgentId },
  context: CommandContext,
): Promise<Answer> {
  const entry = context.roster.list().find((each) => each.id === change.agent);
  const name = context.names.agent(change.agent);
  const channels = entry?.channels ?? [];
  if (channels.length === 0)
    return { ok: false, text: `${name} is in no channel. To add it: /floor add ${change.agent}` };
  const applied = await Promise.all(
    channels.map((channel) => context.floors.apply(channel, { ...change, by: request.person.id })),
  );
  const refusals = applied.flatMap((each) => (each.ok ? [] : [each.refusal]));
  const changed = applied.length - refusals.length;
  const [refusal] = refusals;
  if (changed === 0 && refusal !== undefined) return refused(refusal, { agent: change.agent }, context);
  const verb = change.type === 'enable' ? 'Enabled' : 'Disabled';
  return { ok: true, text: `${verb} ${name} in ${counted(changed, 'channel')}.` };
}

/** What is said of a button that was drawn for something that is over. */
export const OVER = { turn: 'That turn is over.', question: 'That request is closed.' } as const;

/** The turn that the button was drawn for: the command counts for no other. */
function drawnIn({ drawnFor }: Request): { readonly epoch?: number } {
  return drawnFor?.of === 'turn' ? { epoch: drawnFor.epoch } : {};
}

const NOBODY_ASKS = 'No request is open here: /floor status shows the floor.';
const DEFAULT_EXTENSION_SECONDS = 60;

async function apply(request: Request, act: Act, context: CommandContext): Promise<Answer> {
  const holder = context.floors.view(request.channel)?.holder?.agent;
  const applied = await context.floors.apply(request.channel, act.command);
  if (!applied.ok) return refused(applied.refusal, { ...defined({ agent: holder }), ...act }, context);
  const view = context.floors.view(request.channel);
  const after = view === null ? '' : `\n${floorLine(view, context.names.agent, context.clock.now())}`;
  return { ok: true, text: `${act.did(applied.facts)}${after}` };
}

function refused(refusal: Refusal, about: { readonly agent?: AgentId }, context: CommandContext): Answer {
  if (refusal === 'stale-epoch') return { ok: false, text: OVER.turn };
  const whom = about.agent === undefined ? {} : { agent: context.names.agent(about.agent) };
  return { ok: false, text: context.words.refusal(refusal, whom) };
}
