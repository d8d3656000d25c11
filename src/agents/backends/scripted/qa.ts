import { PASS, answerWith } from './scene.ts';
import type { Persona, Scene, Step, Words } from './scene.ts';

/** The tester: tries the code that was said last and lists the checks; passes when there is nothing to try. */
export const qa: Persona = {
  reply: (scene) => {
    const made = scene.heard === null ? null : functionIn(scene.heard.text);
    if (made && scene.heard) return tries(scene, made, scene.heard.name);
    if (!scene.asked) return PASS;
    return answerWith(plan(scene.asked), scene);
  },
  note: ({ topic }) => `Noted: ${topic.title}. I add a check for it.`,
  answer: ({ by, topic }) => `${by}, first your message: I check ${topic.title} before everything else. ✓`,
};

type Made = { readonly name: string; readonly inputs: readonly string[] };

function functionIn(text: string): Made | null {
  const [, name, list] = /export function (\w+)\(([^)]*)\)/.exec(text) ?? [];
  if (name === undefined || list === undefined) return null;
  return { name, inputs: list.split(',').map((input) => input.replace(/:.*$/s, '').trim()) };
}

function tries(scene: Scene, { name, inputs }: Made, by: string): readonly Step[] {
  const [first = 'input'] = inputs;
  const checks = [
    `- ✓ \`${name}\` answers with ordinary input`,
    ...inputs.slice(0, 3).map((input) => `- ✓ an empty \`${input}\` is refused with "${input} is missing"`),
    `- ✓ 10,000 characters of \`${first}\` go through unharmed`,
  ];
  const text = [
    `I tried ${by}'s \`${name}\`:`,
    '',
    ...checks,
    '',
    `${checks.length} of ${checks.length} checks pass. Ready from my side.`,
  ];
  return [{ do: 'work', ms: 1_000 }, ...answerWith(text.join('\n'), scene)];
}

function plan({ topic, by }: Words): string {
  if (topic.kind === 'greeting' || topic.kind === 'thanks') return `Always happy to break things for you, ${by}.`;
  const words = topic.words.length > 0 ? topic.words : [topic.title];
  return [
    `How I would test ${topic.title}:`,
    '',
    ...words.slice(0, 4).map((word) => `- ${word}: missing, twice, and far too long`),
  ].join('\n');
}
