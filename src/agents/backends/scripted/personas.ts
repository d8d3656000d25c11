import { addressedIn, mentionsIn } from '../../../turns/text/recognition.ts';
import type { AgentId } from '../../../turns/floor/settings.ts';
import type { Line } from '../../../turns/view.ts';
import type { TurnPrompt } from '../backend.ts';
import { PASS, WAITING, sayAndEnd } from './demo-words.ts';
import type { Step } from './demo-words.ts';

/** A person's message, parsed for the scripts. */
type Wish = {
  readonly by: string;
  readonly text: string;
  readonly to: readonly AgentId[];
  /**
   * The first sentence without greeting and request words, such as "a login page with email". "this" when nothing is
   * left. Cut to about 90 characters.
   */
  readonly title: string;
  readonly words: readonly string[];
  readonly kind: 'greeting' | 'question' | 'request';
  /** The two options of a message such as "A or B"; `null` for other messages. */
  readonly choice: readonly [string, string] | null;
};

/** What a session remembers: the last request, and the request about which the agent asked a question. `null`: none. */
export type ScriptMemory = { readonly request: Wish | null; readonly question: Wish | null };

/** What a script needs to choose its steps for one prompt. */
export type Scene = ScriptMemory & {
  readonly me: AgentId;
  /** The new messages to this agent or to no agent, joined into one request. `null`: none. */
  readonly asked: Wish | null;
  /** The last message of another agent among the new lines, and whether it mentions this agent. `null`: none. */
  readonly heard: { readonly name: string; readonly text: string; readonly callsMe: boolean } | null;
};

/** A demo agent. */
export type Persona = {
  readonly reply: (scene: Scene) => readonly Step[];
  /** The text posted when a message arrives during the agent's answer. */
  readonly note: (request: Wish) => string;
  /** The answer to a new message in a turn that has begun. */
  readonly answer: (request: Wish) => string;
};

/** Returns the scene of a prompt for the agent `me`. */
export function sceneOf(turn: TurnPrompt, me: AgentId, memory: ScriptMemory): Scene {
  const read = (line: Line): Wish => readRequest(line, turn.roster);
  const isOpen = ({ message }: Line): boolean => message !== null && turn.open.includes(message);
  const wanted = turn.messages.filter(({ change }) => change !== 'deleted');
  const fresh = wanted.filter((line) => !isOpen(line)).map(read);
  const people = turn.lines.filter(({ author, change }) => author.kind === 'person' && change !== 'deleted');
  const last = turn.lines.findLast(({ author }) => author.kind === 'agent' && author.id !== me);
  const callsMe = last !== undefined && mentionsIn(last.text, turn.roster).includes(me);
  const latest = fresh.at(-1) ?? [...people, ...wanted.filter(isOpen)].map(read).at(-1);
  const mine = fresh.filter((request) => isFor(request, me));
  const text = mine.map((request) => request.text).join('\n');
  const lastMine = mine.at(-1);
  return {
    me,
    asked: lastMine ? { ...lastMine, text, ...subjectOf(text) } : null,
    request: latest ?? (callsMe || turn.reason !== 'grant' ? memory.request : null),
    question: memory.question,
    heard: last === undefined ? null : { name: last.author.name, text: last.text, callsMe },
  };
}

/** True when a request addresses this agent, or no agent. */
export function isFor({ to }: Wish, agent: AgentId): boolean {
  return to.length === 0 || to.includes(agent);
}

/** Parses a message. Leading names of agents ("@dev, please", "dev: please") are removed from the text. */
export function readRequest({ author, text }: Line, agents: TurnPrompt['roster']): Wish {
  let rest = text.trim();
  for (let name = ''; (name = leadingName(rest, agents)) !== '';)
    rest = rest.slice(name.length).replace(/^[\s,:]+/, '');
  return { by: author.name, text: rest, to: addressedIn(text, agents), ...subjectOf(rest) };
}

function leadingName(text: string, agents: TurnPrompt['roster']): string {
  const lower = text.slice(0, 200).toLowerCase();
  const names = agents.flatMap(({ id, name }) => [id.toLowerCase(), name.toLowerCase()]);
  const called = [
    ...names.map((name) => [`@${name}`, /[\s,:]/] as const),
    ...names.map((name) => [name, /[,:]/] as const),
  ];
  const found = called.filter(([name, after]) => lower.startsWith(name) && after.test(lower.charAt(name.length)));
  return found.map(([name]) => name).sort((a, b) => b.length - a.length)[0] ?? '';
}

const OPENING =
  /^(?:(?:hi|hello|hey|ok|okay|so|well|team|all|everyone|please|now)\b[\s,!.]*)*(?:(?:can|could|would|will) (?:you|we|someone) |(?:i|we) (?:want|need|would like|'d like) (?:you )?(?:to (?:have )?)?|let'?s |help (?:me|us) (?:to )?)?(?:please )?(?:(?:build|make|create|add|write|design|implement|develop|plan|do) (?!(?:it|this|that|them|sure)\b)(?:me |us )?)?/i;
const KINDS = [
  ['greeting', /^(?:hi|hello|hey|good (?:morning|evening|afternoon)|moin|yo)\b[^.?!]{0,20}[.?!]?$/i],
  ['greeting', /^(?:thanks?|thank you|thx|great|nice|perfect|cool|well done|ok|okay)\b[^?]{0,30}$/i],
  ['request', /^(?:please |hey |hi |hello )?(?:can|could|would|will) (?:you|we|someone|anybody) /i],
  ['question', /\?\s*$|^(?:what|why|how|who|when|where|which|is|are|does|do|should)\b/i],
] as const;
const FILLER = new Set(
  (
    'a an and are as at be by can could do does for from get give go have help how i in into is it its just let like make ' +
    'me my need new no not of on one or our out please should so some than that the them then there they this to try up us ' +
    'use want was we what when where which who why will with would you your build create add write design implement plan hello hi hey'
  ).split(' '),
);

function subjectOf(text: string): Pick<Wish, 'title' | 'words' | 'kind' | 'choice'> {
  const plain = text.slice(0, 2_000).replace(/\s+/g, ' ').trim();
  const [sentence = plain] = plain.split(/(?<=[.!?])\s/);
  const title = sentence
    .replace(OPENING, '')
    .replace(/,? please[.!?]*$/i, '')
    .replace(/[\s.!?,;:]+$/, '');
  const words = plain.toLowerCase().match(/[\p{L}\p{N}][\p{L}\p{N}'-]*/gu) ?? [];
  const [, one, other] = /([\p{L}\p{N}.+#-]+),? or (?:an? |the |in |with |on )?([\p{L}\p{N}.+#-]+)/iu.exec(plain) ?? [];
  const isChoice = !FILLER.has(one?.toLowerCase() ?? 'a') && !/^(?:not|so|two|more|less|else)$/i.test(other ?? '');
  return {
    title: (title.length > 90 ? `${title.slice(0, 90).replace(/\s+\S*$/, '')} …` : title) || 'this',
    words: [...new Set(words.filter((word) => !FILLER.has(word) && word.length > 1))].slice(0, 5),
    kind: KINDS.find(([, pattern]) => pattern.test(plain))?.[0] ?? 'request',
    choice: isChoice && one !== undefined && other !== undefined ? [one, other.replace(/[.]+$/, '')] : null,
  };
}

const pm: Persona = {
  reply: ({ asked, question, heard }) => {
    if (question) return specified(question, asked?.title ?? null);
    if (!asked)
      return heard?.callsMe ? sayAndEnd(`Thank you, ${heard.name}. That is what I had in mind; accepted.`) : PASS;
    const { kind, choice, title, by } = asked;
    if (kind === 'greeting') return sayAndEnd(`Hello ${by}! Try "Build a login page with email and password".`);
    if (choice)
      return sayAndEnd(
        `Before I write it down: **${choice[0]}** or **${choice[1]}**? The rest follows from that.`,
        WAITING,
      );
    if (kind === 'request') return specified(asked);
    return /\bwhich\b/i.test(asked.text)
      ? sayAndEnd(`That depends on what matters most to you about ${title}. What should I go by?`, WAITING)
      : sayAndEnd(`About ${title}: try the smallest version first and decide from what we see.`);
  },
  note: ({ title }) => `Noted: ${title}. It goes into the spec.`,
  answer: ({ by, kind, title }) =>
    kind === 'question'
      ? `${by}, about your question (${title}): I would keep it as small as it can be and look at it again afterwards.`
      : `${by}, understood: ${title}. That comes first.`,
};

/**
 * Returns the steps that post a specification and hand over to dev. `answer`: the reply to pm's question. `null`: pm
 * asked and nobody answered. Absent: pm did not ask.
 */
function specified({ title, words, by }: Wish, answer?: string | null): readonly Step[] {
  const start = answer === null ? 'I go on without an answer.\n\n' : answer && `**${capital(answer)}** it is.\n\n`;
  const details = words.length > 1 ? words.slice(1, 4) : [words[0] ?? title];
  const text = [
    `${start ?? ''}**${capital(title)}**: what we build for ${by}`,
    '',
    `1. ${capital(title)}${answer ? `, with ${answer}` : ''}: the smallest version that is of use.`,
    ...details.map(
      (word, at) => `${at + 2}. "${word}" is covered, with a clear message when something is wrong with it.`,
    ),
    '',
    'Everything else can wait. @dev, over to you.',
  ];
  return sayAndEnd(text.join('\n'), { how: 'completed', handTo: 'dev' });
}

const dev: Persona = {
  reply: (scene) => {
    const { asked, heard } = scene;
    const request = asked ?? handedOver(scene);
    if (request?.kind === 'request') {
      const points = heard?.text.match(/^\d+\. /gm)?.length ?? 0;
      const source = points > 0 ? `The ${points} points of ${heard?.name}'s list are in.` : 'Here is a first version.';
      const text = `Done: ${request.title}. ${source}\n\n${code(request)}\n\n@qa, please try to break it.`;
      return [{ do: 'work', ms: 1_500 }, ...sayAndEnd(text, { how: 'completed', handTo: 'qa' })];
    }
    if (!asked) return PASS;
    if (asked.kind === 'question') return sayAndEnd(`About ${asked.title}: I can build it if you say so.`);
    return sayAndEnd(`At your service, ${asked.by}! Give me something to build.`);
  },
  note: ({ title }) => `Noted: ${title}. I take it into account from here on.`,
  answer: ({ by, kind, title }) =>
    kind === 'question'
      ? `${by}, first your question (${title}): yes as far as I can see, and I check it with a test.`
      : `${by}, first your message: ${title}. I change that right away.`,
};

function handedOver({ heard, request, me }: Scene): Wish | null {
  if (!heard || !request) return null;
  const title = /^\*\*(.+?)\*\*: what we build/m.exec(heard.text)?.[1];
  if (title !== undefined) return { ...request, ...subjectOf(title), kind: 'request' };
  return heard.callsMe || isFor(request, me) ? request : null;
}

function code({ words: [first = 'feature', second = '', ...rest] }: Wish): string {
  const inputs = (rest.length > 0 ? rest : ['input']).map((word) => identifier(word));
  return [
    '```ts',
    `export function ${identifier(first, second)}(${inputs.map((input) => `${input}: string`).join(', ')}): string {`,
    ...inputs.map((input) => `  if (${input}.trim() === '') throw new Error('${input} is missing');`),
    `  return \`${first}: ${inputs.map((input) => `\${${input}}`).join(', ')}\`;`,
    '}',
    '```',
  ].join('\n');
}

function identifier(...words: readonly string[]): string {
  const ascii = words.map((word) =>
    word
      .normalize('NFKD')
      .replace(/[^A-Za-z0-9]/g, '')
      .toLowerCase(),
  );
  const [first = 'feature', ...rest] = ascii.filter((word) => word !== '');
  return `${/^\d/.test(first) ? 'make' : ''}${first}${rest.map(capital).join('')}`;
}

const capital = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}`;

const qa: Persona = {
  reply: ({ asked, heard }) => {
    const [, name, list] = /export function (\w+)\(([^)]*)\)/.exec(heard?.text ?? '') ?? [];
    if (name !== undefined && list !== undefined && heard) {
      const inputs = list.split(',').map((input) => input.replace(/:.*$/s, '').trim());
      const checks = [
        `- ✓ \`${name}\` answers with ordinary input`,
        ...inputs.slice(0, 3).map((input) => `- ✓ an empty \`${input}\` is refused with "${input} is missing"`),
        `- ✓ 10,000 characters of \`${inputs[0]}\` go through unharmed`,
      ];
      const result = `${checks.length} of ${checks.length} checks pass. Ready from my side.`;
      const text = `I tried ${heard.name}'s \`${name}\`:\n\n${checks.join('\n')}\n\n${result}`;
      return [{ do: 'work', ms: 1_000 }, ...sayAndEnd(text)];
    }
    if (!asked) return PASS;
    const { kind, title, words, by } = asked;
    if (kind === 'greeting') return sayAndEnd(`Always happy to break things for you, ${by}.`);
    const checks = (words.length > 0 ? words : [title]).slice(0, 4);
    const lines = checks.map((word) => `- ${word}: missing, twice, and far too long`).join('\n');
    return sayAndEnd(`How I would test ${title}:\n\n${lines}`);
  },
  note: ({ title }) => `Noted: ${title}. I add a check for it.`,
  answer: ({ by, title }) => `${by}, first your message: I check ${title} before everything else. ✓`,
};

/** The demo agents by their name in the configuration. */
export const SCRIPTS = { pm, dev, qa } as const satisfies Record<string, Persona>;
