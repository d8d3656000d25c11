import { addressedIn, mentionsIn } from '../../../turns/text/recognition.ts';
import type { Addressee } from '../../../turns/text/recognition.ts';
import type { AgentId } from '../../../turns/floor/settings.ts';
import type { Line } from '../../../turns/view.ts';
import type { Ending, TurnPrompt } from '../backend.ts';
import { topicOf } from './topic.ts';
import type { Topic } from './topic.ts';

/** What a scripted agent does next. */
export type Step =
  /** Streams a text word by word; a pause of `wordMs` (typing speed unless given) after each. */
  | { readonly do: 'say'; readonly text: string; readonly wordMs?: number }
  /** Ends the message, so that the next text is one of its own. */
  | { readonly do: 'flush' }
  /** Works in silence, as with a tool. */
  | { readonly do: 'work'; readonly ms: number }
  /** Has a tool of the demo's server called, and says what came of it. */
  | { readonly do: 'call'; readonly tool: string; readonly input: Readonly<Record<string, string>> }
  /** From here on messages are not taken before the next prompt. */
  | { readonly do: 'deafen' }
  | { readonly do: 'crash' }
  | { readonly do: 'hang' }
  | { readonly do: 'end'; readonly ending: Ending };

/** What a script goes by: who it is, what people want of it, what the others said. */
export type Scene = {
  readonly me: AgentId;
  /** The other agents at this floor that are not offline. */
  readonly others: readonly AgentId[];
  readonly reason: TurnPrompt['reason'];
  /** What a person wants of this agent now; `null` when nobody does. */
  readonly asked: Words | null;
  /** What the exchange is about: the last words of a person, to whomever; older ones when somebody calls this agent. */
  readonly request: Words | null;
  /** What another agent said last, since this one spoke. */
  readonly heard: { readonly id: AgentId; readonly name: string; readonly text: string } | null;
  /** Whether that named this agent. */
  readonly called: boolean;
  /** The request about which this agent asked back, and waits. */
  readonly openQuestion: Words | null;
};

/** A person's words as a script understands them. */
export type Words = {
  readonly by: string;
  readonly text: string;
  readonly to: readonly AgentId[];
  readonly topic: Topic;
};

/** A demo agent: pure functions from what was said to what it does. */
export type Persona = {
  readonly reply: (scene: Scene) => readonly Step[];
  /** What it writes when a message comes in the middle of its answer. */
  readonly note: (words: Words) => string;
  /** What it answers before it goes on with what a person interrupted. */
  readonly answer: (words: Words) => string;
};

/** What a session remembers between prompts. */
export type ScriptMemory = { readonly request: Words | null; readonly openQuestion: Words | null };

/** Sets the scene for a prompt. */
export function sceneOf(turn: TurnPrompt, me: AgentId, memory: ScriptMemory): Scene {
  const people = turn.lines.filter(({ author, change }) => author.kind === 'person' && change !== 'deleted');
  const wanted = turn.messages.filter(({ change }) => change !== 'deleted');
  const isOpen = ({ message }: Line): boolean => message !== null && turn.open.includes(message);
  const said = wanted.filter((line) => !isOpen(line)).map((line) => readWords(line, turn.roster));
  const open = wanted.filter(isOpen).map((line) => readWords(line, turn.roster));
  const mine = said.filter(({ to }) => to.length === 0 || to.includes(me));
  const agents = turn.lines.filter(({ author }) => author.kind === 'agent' && author.id !== me);
  const last = agents.at(-1);
  const called = last !== undefined && mentionsIn(last.text, turn.roster).includes(me);
  const latest = said.at(-1) ?? open.at(-1) ?? people.map((line) => readWords(line, turn.roster)).at(-1);
  return {
    me,
    others: turn.roster.filter(({ id, status }) => id !== me && status !== 'OFFLINE').map(({ id }) => id),
    reason: turn.reason,
    asked: joined(mine),
    request: latest ?? (called || turn.reason !== 'grant' ? memory.request : null),
    called,
    heard: last === undefined ? null : { id: last.author.id, name: last.author.name, text: last.text },
    openQuestion: memory.openQuestion,
  };
}

/** A person's line, read. */
export function readWords(line: Line, agents: readonly Addressee[]): Words {
  const text = unaddressed(line.text, agents);
  return { by: line.author.name, text, to: addressedIn(line.text, agents), topic: topicOf(text) };
}

/** An answer that is complete: the text, then the end of the turn, handed to another agent if it is here. */
export function answerWith(text: string, scene: Scene, handTo?: AgentId): readonly Step[] {
  const ending: Ending =
    handTo !== undefined && scene.others.includes(handTo) ? { how: 'completed', handTo } : { how: 'completed' };
  return [
    { do: 'say', text },
    { do: 'end', ending },
  ];
}

/** Nothing to add. */
export const PASS: readonly Step[] = [{ do: 'end', ending: { how: 'passed' } }];

function joined(all: readonly Words[]): Words | null {
  const last = all.at(-1);
  if (last === undefined || all.length === 1) return last ?? null;
  const text = all.map((words) => words.text).join('\n');
  return { ...last, text, topic: topicOf(text) };
}

/** The text without the names before it: "@dev, please" and "dev: please" are both "please". */
function unaddressed(text: string, agents: readonly Addressee[]): string {
  const names = agents.flatMap(({ id, name }) => [id.toLowerCase(), name.toLowerCase()]);
  let rest = text.trim();
  for (let length = 0; (length = addressLength(rest, names)) > 0;) rest = rest.slice(length).replace(/^[\s,:]+/, '');
  return rest;
}

function addressLength(text: string, names: readonly string[]): number {
  const lower = text.toLowerCase();
  const lengths = names.map((name) => {
    if (lower.startsWith(`@${name}`) && /^[\s,:]/.test(lower.slice(name.length + 1))) return name.length + 1;
    return lower.startsWith(name) && /^[,:]/.test(lower.slice(name.length)) ? name.length : 0;
  });
  return Math.max(0, ...lengths);
}
