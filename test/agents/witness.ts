import type { AgentBackend, AgentSession } from '../../src/agents/backends/backend.ts';

/** One generation: its prompt, the injected messages, and whether it ended normally. */
export type Generation = { readonly prompt: string; readonly injected: string[]; completed: boolean };

/** Wraps a backend and records its generations. */
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

/**
 * Returns whether a generation that ended normally received the whole text: in its prompt as a message to answer, or
 * injected.
 */
export function isAnswered(generations: readonly Generation[], text: string): boolean {
  return generations.some(
    ({ completed, prompt, injected }) => completed && (injected.includes(text) || isAsked(prompt, text)),
  );
}

/** Returns whether a prompt holds the whole text as a message to answer. */
export function isAsked(prompt: string, text: string): boolean {
  return [', to answer now', ', still open'].some((mark) => prompt.includes(`${mark}]\n${text}\n`));
}
