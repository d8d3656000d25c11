import type { AgentId, ChannelId } from '../floor/settings.ts';
import type { FloorView } from '../view.ts';
import {
  add,
  decide,
  extend,
  grant,
  mode,
  order,
  pause,
  remove,
  resume,
  skip,
  start,
  stop,
  switchAgent,
} from './act.ts';
import type { Answer, Desk, Request } from './desk.ts';
import { modeText, orderText, queueText, statusText } from './floor-words.ts';
import { findAgent } from './lookup.ts';
import { parseLine, quoted } from './parse.ts';
import type { Invocation } from './parse.ts';
import { agentsText, helpText, logText, noHelp, whoamiText, whyText } from './read.ts';
import { mayOperate } from './roles.ts';
import type { Person } from './roles.ts';
import type { CommandPath } from './table.ts';

/** Answers command lines. */
export type Operators = {
  /**
   * Reads a line, checks who may, does it and says so in a few words. A refused command changes nothing and the
   * answer says why. Rejects only when the floor could not be written. `epoch`: the turn a button was drawn for.
   */
  run(channel: ChannelId, person: Person, line: string, epoch?: number): Promise<Answer>;
};

/** Commands over these floors and agents. */
export function createOperators(desk: Desk): Operators {
  return {
    async run(channel, person, line, epoch) {
      const parsed = parseLine(line);
      if (!parsed.ok) return { ok: false, text: parsed.message };
      const { invocation } = parsed;
      const request = { channel, person, values: invocation.values, ...(epoch === undefined ? {} : { epoch }) };
      if (invocation.needs === 'read') return RUN[invocation.path](request, desk);
      const answer = operates(person, desk)
        ? await RUN[invocation.path](request, desk)
        : notAllowed(invocation, person);
      desk.audit?.({ channel, by: person.id, line, ...answer });
      return answer;
    },
  };
}

type Run = (request: Request, desk: Desk) => Answer | Promise<Answer>;

const RUN: Readonly<Record<CommandPath, Run>> = {
  'floor status': (request, desk) => withView(request, desk, (view) => statusText(view, desk)),
  'floor start': (request, desk) => withFloor(request, desk, () => start(request, desk)),
  'floor grant': (request, desk) => withAgent(request, desk, (agent) => grant(request, agent, desk)),
  'floor skip': (request, desk) =>
    request.values.agent === undefined
      ? withFloor(request, desk, () => skip(request, undefined, desk))
      : withAgent(request, desk, (agent) => skip(request, agent, desk)),
  'floor extend': (request, desk) => withFloor(request, desk, () => extend(request, desk)),
  'floor pause': (request, desk) => withFloor(request, desk, () => pause(request, desk)),
  'floor resume': (request, desk) => withFloor(request, desk, () => resume(request, desk)),
  'floor order': (request, desk) =>
    request.values.order === undefined
      ? withView(request, desk, (view) => orderText(view, desk.names.agent))
      : withFloor(request, desk, () => withQueue(request, desk)),
  'floor mode': (request, desk) =>
    request.values.mode === undefined
      ? withView(request, desk, modeText)
      : withFloor(request, desk, () => mode(request, desk)),
  'floor add': (request, desk) => withAgent(request, desk, (agent) => add(request, agent, desk)),
  'floor remove': (request, desk) => withAgent(request, desk, (agent) => remove(request, agent, desk)),
  'floor log': (request, desk) =>
    withView(request, desk, () => logText(request.channel, request.values.count ?? DEFAULT_LOG_COUNT, desk)),
  'agent list': (_, desk) => ({ ok: true, text: agentsText(desk) }),
  'agent status': (request, desk) =>
    withKnown(request, desk, (agent) => ({ ok: true, text: (desk.roster.status(agent) ?? [agent]).join('\n') })),
  'agent enable': (request, desk) =>
    withKnown(request, desk, (agent) => switchAgent(request, { type: 'enable', agent }, desk)),
  'agent disable': (request, desk) =>
    withKnown(request, desk, (agent) => switchAgent(request, { type: 'disable', agent }, desk)),
  'agent restart': (request, desk) => withKnown(request, desk, (agent) => desk.roster.restart(agent)),
  stop: (request, desk) => withFloor(request, desk, () => stop(request, desk)),
  allow: (request, desk) => withFloor(request, desk, () => decide(request, 'allow', desk)),
  reject: (request, desk) => withFloor(request, desk, () => decide(request, 'reject', desk)),
  queue: (request, desk) => withView(request, desk, (view) => queueText(view, desk)),
  why: ({ channel, values: { message = '' } }, desk) => {
    const text = whyText(channel, message, desk);
    return text === null
      ? { ok: false, text: `No message ${quoted(message)} was received in this channel.` }
      : { ok: true, text };
  },
  whoami: ({ person }, desk) => ({ ok: true, text: whoamiText(person, operates(person, desk)) }),
  help: ({ values: { command } }) => {
    const text = helpText(command);
    return text === null ? { ok: false, text: noHelp(command ?? '') } : { ok: true, text };
  },
};

const DEFAULT_LOG_COUNT = 10;

function operates(person: Person, desk: Desk): boolean {
  const agents = desk.roster.list().map((agent) => agent.id);
  return mayOperate(person, desk.operators(), agents);
}

function notAllowed(invocation: Invocation, person: Person): Answer {
  const how = `/whoami shows your id (${person.id}); an operator is named in "operators" of turnConfig.json.`;
  return { ok: false, text: `Only operators may run /${invocation.path}. ${how}` };
}

function withFloor(
  request: Request,
  desk: Desk,
  run: (view: FloorView) => Answer | Promise<Answer>,
): Answer | Promise<Answer> {
  const view = desk.floors.view(request.channel);
  const text = 'This channel has no floor: add it to "channels" in turnConfig.json.';
  return view === null ? { ok: false, text } : run(view);
}

function withView(request: Request, desk: Desk, text: (view: FloorView) => string): Answer | Promise<Answer> {
  return withFloor(request, desk, (view) => ({ ok: true, text: text(view) }));
}

function withAgent(
  request: Request,
  desk: Desk,
  run: (agent: AgentId) => Answer | Promise<Answer>,
): Answer | Promise<Answer> {
  return withFloor(request, desk, () => withKnown(request, desk, run));
}

function withKnown(
  request: Request,
  desk: Desk,
  run: (agent: AgentId) => Answer | Promise<Answer>,
): Answer | Promise<Answer> {
  const found = findAgent(request.values.agent ?? '', desk.roster.list());
  return found.ok ? run(found.agent) : { ok: false, text: found.message };
}

function withQueue(request: Request, desk: Desk): Answer | Promise<Answer> {
  const found = (request.values.agents ?? []).map((word) => findAgent(word, desk.roster.list()));
  const missing = found.find((each) => !each.ok);
  if (missing !== undefined) return { ok: false, text: missing.message };
  return order(
    request,
    found.flatMap((each) => (each.ok ? [each.agent] : [])),
    desk,
  );
}
