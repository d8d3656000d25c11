import type { Command } from '../../src/turns/floor/command.ts';
import type { Floor } from '../../src/turns/floor/floor.ts';
import type { AgentId, MessageId } from '../../src/turns/floor/settings.ts';
import { of } from './step.ts';
import type { Step } from './step.ts';
import { must } from './violation.ts';

/** A message that a generation was given and has not answered. `begun`: the agent said something since. */
type Open = { readonly id: MessageId; readonly begun: boolean };

/** By agent with a turn: messages for its next prompt, and answered ones. The search keeps them without the core. */
export type Answers = Readonly<
  Record<AgentId, { readonly open: readonly Open[]; readonly done: readonly MessageId[] }>
>;

/**
 * I25: a message is done only when a prompt with it led to a generation that ended by itself, or that answered and then
 * fell silent. Until then every further prompt of its turn has it. Returns the answers after the step.
 */
export function followAnswers(before: Answers, step: Step): Answers {
  const answers = new Map(Object.entries(before));
  act(answers, step);
  const marked: MessageId[] = [];
  const broken: MessageId[] = [];
  for (const { agent, outcome, answered, cut = [] } of of(step.facts, 'turnEnded')) {
    const { open, done } = answers.get(agent) ?? NOTHING;
    const lapsed = outcome === 'lapsed' ? open.filter(({ begun }) => begun).map(({ id }) => id) : [];
    must(
      same(answered, [...done, ...lapsed]),
      'I25',
      'a message is done that no generation answered, or it is forgotten',
    );
    const begun = outcome === 'lapsed' ? [] : open.filter((one) => one.begun).map(({ id }) => id);
    must(same(cut, begun), 'I25', 'an answer is cut short that was not begun, or nobody is told');
    marked.push(...answered);
    broken.push(...cut);
    answers.delete(agent);
  }
  const shownAs = (kind: string): readonly MessageId[] =>
    of(step.effects, 'receipt').flatMap(({ receipt, message }) => (receipt === kind ? [message] : []));
  const isShown = same(shownAs('done'), marked) && same(shownAs('cut'), broken);
  must(!step.after.settings.receipts || isShown, 'I25', 'a message is shown as done or cut short that is not');
  for (const { agent, reason, messages, open: marks } of of(step.effects, 'prompt')) {
    const { open, done } = reason === 'grant' ? NOTHING : (answers.get(agent) ?? NOTHING);
    must(
      open.every(({ id }) => messages.includes(id)),
      'I25',
      'a prompt leaves out a message that nobody answered',
    );
    must(
      same(
        marks,
        open.map(({ id }) => id),
      ),
      'I25',
      'a prompt calls a message open that is new, or the other way round',
    );
    const given = messages.map((id) => open.find((one) => one.id === id) ?? { id, begun: false });
    answers.set(agent, { open: given, done });
  }
  return Object.fromEntries(answers);
}

/** I25: the floor takes an agent's report about an injected message, whether or not the turn waits. */
export function checkHeard({ turn }: Floor, command: Command): void {
  if (command.type !== 'injected' || command.outcome === 'no-room' || turn === null || turn.status === 'suspended')
    return;
  const isOwn = turn.agent === command.agent && turn.epoch === command.epoch;
  must(!isOwn || turn.injecting.every(({ id }) => id !== command.id), 'I25', 'what an agent took in is not heard of');
}

const NOTHING = { open: [], done: [] } as const;

function act(answers: Map<AgentId, Answers[AgentId]>, { command, before }: Step): void {
  if (command.type === 'delete') {
    for (const [agent, { open, done }] of answers)
      answers.set(agent, {
        open: open.filter(({ id }) => id !== command.id),
        done: done.filter((id) => id !== command.id),
      });
    return;
  }
  if (
    command.type !== 'say' &&
    command.type !== 'end' &&
    command.type !== 'injected' &&
    command.type !== 'completeTurn'
  )
    return;
  const { open, done } = answers.get(command.agent) ?? NOTHING;
  switch (command.type) {
    case 'say':
      answers.set(command.agent, { open: open.map(({ id }) => ({ id, begun: true })), done });
      return;
    case 'end':
    case 'completeTurn':
      answers.set(command.agent, { open: [], done: [...done, ...open.map(({ id }) => id)] });
      return;
    case 'injected': {
      if (before.held.some(({ id, until }) => id === command.id && until === 'exchange')) return;
      const others = open.filter(({ id }) => id !== command.id);
      const taken = command.outcome === 'injected' ? [{ id: command.id, begun: false }] : [];
      answers.set(command.agent, { open: [...others, ...taken], done });
    }
  }
}

function same(some: readonly MessageId[], others: readonly MessageId[]): boolean {
  return some.toSorted().join() === others.toSorted().join();
}
