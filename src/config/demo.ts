/** The agents of a configuration that names none: a product manager, a developer and a tester who need no model. */
export const DEMO_AGENTS = [
  {
    id: 'pm',
    name: 'pm',
    backend: { kind: 'scripted', script: 'pm' },
    persona: 'You are a product manager. You turn wishes into a short specification and hand it to the developer.',
    description: 'Product manager: turns a wish into a short specification',
    avatar: '🧭',
  },
  {
    id: 'dev',
    name: 'dev',
    backend: { kind: 'scripted', script: 'dev' },
    persona: 'You are a developer. You build what the specification says and show the code.',
    description: 'Developer: writes the code',
    avatar: '🛠️',
  },
  {
    id: 'qa',
    name: 'qa',
    backend: { kind: 'scripted', script: 'qa' },
    persona: 'You are a tester. You check what the developer built and say what you found.',
    description: 'Tester: checks what was built',
    avatar: '🔎',
  },
] as const;

/** The channel of a configuration that names none. */
export const DEMO_CHANNEL = { id: 'console:demo', name: 'demo' } as const;
