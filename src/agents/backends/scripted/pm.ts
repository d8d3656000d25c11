import { capital } from './topic.ts';
import { PASS, answerWith } from './scene.ts';
import type { Persona, Scene, Step, Words } from './scene.ts';

/** The product manager: asks when a request leaves a choice open, writes a small spec and hands over. */
export const pm: Persona = {
  reply: (scene) => {
    if (scene.openQuestion && scene.reason === 'resume') return decided(scene, scene.openQuestion);
    if (!scene.asked) return accepted(scene);
    const { kind, choice, title } = scene.asked.topic;
    if (kind === 'greeting') return answerWith(welcome(scene.asked), scene);
    if (kind === 'thanks') return answerWith(`You're welcome, ${scene.asked.by}. What is next?`, scene);
    if (choice)
      return asks(`Before I write it down: **${choice[0]}** or **${choice[1]}**? The rest follows from that.`);
    if (kind === 'question' && /\bwhich\b/i.test(scene.asked.text)) {
      return asks(`That depends on what matters most to you about ${title}. What should I go by?`);
    }
    return kind === 'question' ? answerWith(opinion(scene.asked), scene) : answerWith(spec(scene), scene, 'dev');
  },
  note: ({ topic }) => `Noted: ${topic.title}. It goes into the spec.`,
  answer: ({ by, topic }) =>
    topic.kind === 'question'
      ? `${by}, about your question (${topic.title}): I would keep it as small as it can be and look at it again afterwards.`
      : `${by}, understood: ${topic.title}. That comes first.`,
};

function welcome({ by }: Words): string {
  return [
    `Hello ${by}! I am the product manager here. Tell me what you would like to have, and I write down what it takes,`,
    'then the developer builds it and the tester tries it, one after the other. Try "Build a login page with email and password".',
  ].join(' ');
}

function asks(text: string): readonly Step[] {
  return [
    { do: 'say', text },
    { do: 'end', ending: { how: 'waiting', reason: 'answer' } },
  ];
}

function decided(scene: Scene, question: Words): readonly Step[] {
  const answer = scene.asked?.topic.title ?? 'your choice';
  const start = scene.asked === null ? 'I go on without an answer.' : `**${capital(answer)}** it is.`;
  return answerWith(`${start}\n\n${points(scene, question, answer)}`, scene, 'dev');
}

function opinion({ topic }: Words): string {
  const about = topic.words.length > 0 ? topic.words.join(', ') : topic.title;
  return `Good question. What I take from it: ${about}. My advice is to try the smallest version first and decide from what we see.`;
}

function spec(scene: Scene): string {
  return scene.asked === null ? '' : points(scene, scene.asked, null);
}

function points(scene: Scene, { topic, by }: Words, answer: string | null): string {
  const [main = topic.title, ...rest] = topic.words;
  const details = rest.length > 0 ? rest : [main];
  return [
    `**${capital(topic.title)}**: what we build for ${by}`,
    '',
    `1. ${capital(topic.title)}${answer === null ? '' : `, with ${answer}`}: the smallest version that is of use.`,
    ...details
      .slice(0, 3)
      .map(
        (word, index) => `${index + 2}. "${word}" is covered, with a clear message when something is wrong with it.`,
      ),
    '',
    `Everything else can wait.${scene.others.includes('dev') ? ' @dev, over to you.' : ''}`,
  ].join('\n');
}

function accepted(scene: Scene): readonly Step[] {
  if (!scene.heard || !scene.called) return PASS;
  return answerWith(`Thank you, ${scene.heard.name}. That is what I had in mind; accepted.`, scene);
}
