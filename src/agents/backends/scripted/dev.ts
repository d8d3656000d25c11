import { topicOf, identifier } from './topic.ts';
import { PASS, answerWith } from './scene.ts';
import type { Persona, Scene, Step, Words } from './scene.ts';

/** The developer: works in silence for a moment, then streams an answer with code made of the request's own words. */
export const dev: Persona = {
  reply: (scene) => {
    const request = scene.asked ?? handedOver(scene);
    if (!request) return PASS;
    const { kind } = request.topic;
    if (kind === 'request') return builds(scene, request);
    if (!scene.asked) return PASS;
    if (kind === 'question') return answerWith(explains(request), scene);
    return answerWith(
      `${kind === 'thanks' ? 'Glad it helps' : 'Hello'}, ${request.by}! Give me something to build.`,
      scene,
    );
  },
  note: ({ topic }) => `Noted: ${topic.title}. I take it into account from here on.`,
  answer: ({ by, topic }) =>
    topic.kind === 'question'
      ? `${by}, first your question (${topic.title}): yes as far as I can see, and I check it with a test.`
      : `${by}, first your message: ${topic.title}. I change that right away.`,
};

function handedOver(scene: Scene): Words | null {
  const { heard, request, called, me } = scene;
  if (!heard || !request) return null;
  const title = /^\*\*(.+?)\*\*: what we build/m.exec(heard.text)?.[1];
  if (title !== undefined) return { ...request, topic: { ...topicOf(title), kind: 'request' } };
  return called || request.to.length === 0 || request.to.includes(me) ? request : null;
}

function builds(scene: Scene, request: Words): readonly Step[] {
  const steps = scene.heard?.text.match(/^\d+\. /gm)?.length ?? 0;
  const source =
    steps > 0 && scene.heard ? `The ${steps} points of ${scene.heard.name}'s list are in.` : 'Here is a first version.';
  const text = [`Done: ${request.topic.title}. ${source}`, '', code(request), '', '@qa, please try to break it.'].join(
    '\n',
  );
  return [{ do: 'work', ms: 1_500 }, ...answerWith(text, scene, 'qa')];
}

function explains({ topic }: Words): string {
  return `About ${topic.title}: from the code's side it comes down to ${topic.words.slice(0, 2).join(' and ') || 'one function'}. I can build it if you say so.`;
}

function code({ topic }: Words): string {
  const [first = 'feature', second, ...rest] = topic.words;
  const name = identifier(second === undefined ? [first] : [first, second]);
  const inputs = (rest.length > 0 ? rest : ['input']).map((word) => identifier([word]));
  return [
    '```ts',
    `export function ${name}(${inputs.map((input) => `${input}: string`).join(', ')}): string {`,
    ...inputs.map((input) => `  if (${input}.trim() === '') throw new Error('${input} is missing');`),
    `  return \`${first}: ${inputs.map((input) => `\${${input}}`).join(', ')}\`;`,
    '}',
    '```',
  ].join('\n');
}
