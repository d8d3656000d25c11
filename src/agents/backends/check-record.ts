import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { writePrivately } from '../../lib/private-file.ts';

const verdict = z.enum(['asks', 'unasked', 'unclear']);

const agentCheck = z.strictObject({
  agent: z.string(),
  profile: z.string(),
  /** The name and version that the agent's program reports, else the command line that started the program. */
  program: z.string(),
  /** When the agent was checked, in ISO 8601. */
  at: z.string(),
  verdict,
  attempts: z.array(z.strictObject({ way: z.string(), verdict, words: z.string() })).readonly(),
});

/**
 * The result of a check. `asks`: the agent asks before it acts. `unasked`: the agent acted without an approval, or went
 * into a mode in which it may act without one. `unclear`: any other result.
 */
export type CheckVerdict = z.infer<typeof verdict>;

/**
 * One check of whether an agent asks before it acts. `attempts`: the actions that the agent was told to try, in order.
 * If the preparation failed, its failure.
 */
export type AgentCheck = Readonly<z.infer<typeof agentCheck>>;

/** Each verdict in words that follow the agent's name. */
export const OUTCOMES: Readonly<Record<CheckVerdict, string>> = {
  asks: 'asks before it acts',
  unasked: 'acts without asking',
  unclear: 'failed to show whether it asks before it acts',
};

/** What to do after each verdict. `null`: nothing. */
export const REMEDIES: Readonly<Record<CheckVerdict, string | null>> = {
  asks: null,
  unasked:
    'Run this agent only in a sandbox until a check shows that it asks. Set the profile of its program, install another release, or change the program’s own settings (docs/coding-agents.md). Then check again.',
  unclear:
    'Make sure that the agent’s program starts, is signed in, and has a model that uses tools. Then check again.',
};

/** Returns the recorded checks of a data folder, oldest first. Returns `[]` when the file cannot be read or parsed. */
export function readChecks(dataDir: string): readonly AgentCheck[] {
  try {
    return z.array(agentCheck).parse(JSON.parse(readFileSync(join(dataDir, FILE), 'utf8')));
  } catch {
    return [];
  }
}

/**
 * Returns why the agent's present release needs a check, in words that follow the agent's name. Returns `null` when the
 * last check of this release and profile showed that the agent asks. `program` `null`: a check of any release counts.
 */
export function uncheckedWords(
  dataDir: string,
  { agent, profile, program }: Pick<AgentCheck, 'agent' | 'profile'> & { readonly program: string | null },
): string | null {
  const own = readChecks(dataDir).filter((each) => each.agent === agent && each.profile === profile);
  const found = own.findLast((each) => program === null || each.program === program);
  const release = program ?? 'an unknown release';
  if (found === undefined) return `runs as ${release} and was never checked for asking before it acts`;
  return found.verdict === 'asks' ? null : `${OUTCOMES[found.verdict]}, by its last check as ${found.program}`;
}

/**
 * Records a check and replaces an earlier check of the same agent, profile and program. Keeps the newest 200 checks.
 * Throws the file system's error.
 */
export function recordCheck(dataDir: string, check: AgentCheck): void {
  const others = readChecks(dataDir).filter(
    ({ agent, profile, program }) => agent !== check.agent || profile !== check.profile || program !== check.program,
  );
  const checks = [...others, check].slice(-MOST_CHECKS);
  writePrivately(join(dataDir, FILE), `${JSON.stringify(checks, null, 2)}\n`);
}

const FILE = 'agent-checks.json';
const MOST_CHECKS = 200;
