import type { AgentBackend, AgentSession } from '../../src/agents/backends/backend.ts';

/** One generation: what it was prompted with, what was put into it, and whether it ended by itself. */
export type Generation = { readonly prompt: string; readonly injected: string[]; completed: boolean };

/** A backend whose generations are written down. */
export function witnessed(backend: AgentBackend): {
  readonly backend: AgentBackend;
  readonly generations: Generation[];
} {
  const generations: Generation[] = [];
  const watch = (session: AgentSession): AgentSession => {
    let now: Generation | null = null;
    const prompt = session.prompt.bind(session);
    const inject = session.inject.bind(session);
    session.prompt = async (turn, report) => {
      const generation: Generation = { prompt: turn.text, injected: [], completed: false };
      now = generation;
      generations.push(generation);
      const ending = await prompt(turn, report);
      generation.completed = ending.how === 'completed' || ending.how === 'passed';
      return ending;
    };
    session.inject = async (message, observed) => {
      const generation = now;
      const outcome = await inject(message, observed);
      if (outcome === 'injected') generation?.injected.push(message.text);
      return outcome;
    };
    return session;
  };
  return { backend: { ...backend, open: async (seat) => watch(await backend.open(seat)) }, generations };
}

/** Whether a generation that ended by itself was given a text, whole: in its prompt, as one to answer now, or while it ran. */
export function isAnswered(generations: readonly Generation[], text: string): boolean {
  return generations.some(
    ({ completed, prompt, injected }) => completed && (injected.includes(text) || isAsked(prompt, text)),
  );
}

/** Whether a prompt holds a text, whole, as one to answer now. */
export function isAsked(prompt: string, text: string): boolean {
  return [', to answer now', ', still open'].some((mark) => prompt.includes(`${mark}]\n${text}\n`));
}
