import { z } from 'zod';
import type { Found } from '../error.ts';

/** What Conch itself sets so that an agent asks, and switches by which it would not: variables and arguments. */
const KEPT: Readonly<Record<string, { readonly variables: readonly string[]; readonly switches: readonly string[] }>> =
  {
    opencode: { variables: ['OPENCODE_PERMISSION', 'OPENCODE_DISABLE_PROJECT_CONFIG'], switches: [] },
    codex: { variables: ['INITIAL_AGENT_MODE'], switches: [] },
    gemini: { variables: [], switches: ['--yolo', '--approval-mode', '--admin-policy', '--allowed-tools'] },
    qwen: {
      variables: ['QWEN_CODE_SYSTEM_SETTINGS_PATH'],
      switches: ['--yolo', '--approval-mode', '--allowed-tools'],
    },
    copilot: {
      variables: ['COPILOT_ALLOW_ALL'],
      switches: ['--allow-all-tools', '--allow-all', '--yolo', '--allow-tool', '--autopilot'],
    },
    kimi: { variables: [], switches: ['--yolo', '--auto-approve', '--auto'] },
  };

/** What agents of these profiles do without asking, whatever Conch sets, in words that follow a name. */
export const ACTS_UNASKED = { kimi: 'writes files of a Git repository without asking' } as const;

const unaskedBy: ReadonlyMap<string, string> = new Map(Object.entries(ACTS_UNASKED));

const names = z.array(z.string()).catch([]);

/** An agent of the file, as far as it is started by Conch. */
export const startedDraft = z
  .object({
    kind: z.literal('acp'),
    profile: z.string().catch('generic'),
    args: names,
    env: names,
    set: z.record(z.string(), z.unknown()).catch({}),
  })
  .nullish()
  .catch(null);

/** A profile that acts unasked: its agent is not started unless it is `trusted`, and told of in any case. */
export function untrusted(
  backend: z.output<typeof startedDraft>,
  { trusted, path }: { readonly trusted: boolean; readonly path: readonly PropertyKey[] },
): readonly Found[] {
  const words = unaskedBy.get(backend?.profile ?? '');
  if (words === undefined) return [];
  const what = `${backend?.profile} ${words}, and cannot be made to ask`;
  const message = trusted
    ? `${what}: Conch starts it because "trusted" is true`
    : `${what}: Conch does not start it. Set "trusted": true at this agent to use it all the same, or take another program`;
  return [{ path, weight: 'unwise', message }];
}

/** Keys of an agent's backend by which it would act unasked, though its profile promises that it asks. */
export function unasking(backend: z.output<typeof startedDraft>, path: readonly PropertyKey[]): readonly Found[] {
  if (!backend) return [];
  const { profile, args, env, set } = backend;
  const { variables = [], switches = [] } = KEPT[profile] ?? {};
  const instead = `take it away, or use the profile "generic", which does not promise to ask`;
  const kept = (name: string, at: readonly PropertyKey[]) =>
    variables.includes(name)
      ? [{ path: [...path, ...at], message: `Conch sets ${name} itself, so that ${profile} asks: ${instead}` }]
      : [];
  const off = (given: string, index: number) =>
    switches.includes(given.split('=')[0] ?? '')
      ? [{ path: [...path, 'args', index], message: `With ${given} ${profile} would not ask: ${instead}` }]
      : [];
  return [
    ...Object.keys(set).flatMap((name) => kept(name, ['set', name])),
    ...env.flatMap((name, index) => kept(name, ['env', index])),
    ...args.flatMap(off),
  ];
}
