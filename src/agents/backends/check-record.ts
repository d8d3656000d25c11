import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { writePrivately } from '../../lib/private-file.ts';

const verdict = z.enum(['asks', 'unasked', 'unclear']);

const agentCheck = z.strictObject({
  agent: z.string(),
  profile: z.string(),
  /** Its name and version as it tells them, else how it was started. */
  program: z.string(),
  /** ISO 8601. */
  at: z.string(),
  verdict,
  attempts: z.array(z.strictObject({ way: z.string(), verdict, words: z.string() })).readonly(),
});

/** What a check showed: it asks before it acts, it acts unasked, or nothing. */
export type CheckVerdict = z.infer<typeof verdict>;

/** What one check of one agent showed, and how: `attempts` are what it was asked to do, in order. */
export type AgentCheck = Readonly<z.infer<typeof agentCheck>>;

/** What a check showed, in words that follow the agent's name. */
export const OUTCOMES: Readonly<Record<CheckVerdict, string>> = {
  asks: 'asks before it acts',
  unasked: 'acts without a yes',
  unclear: 'failed to show whether it asks before it acts',
};

/** What to do about a verdict; `null`: nothing. */
export const REMEDIES: Readonly<Record<CheckVerdict, string | null>> = {
  asks: null,
  unasked:
    'Run it only in a sandbox until it asks: give it the profile of its program, install another release, or look at its own settings (docs/coding-agents.md), and check again.',
  unclear: 'See that its program starts, is signed in, and has a model that uses tools, and check again.',
};

/** The checks on record in a data folder, oldest first. A record that cannot be read counts as none: a check is soon made again. */
export function readChecks(dataDir: string): readonly AgentCheck[] {
  try {
    return z.array(agentCheck).parse(JSON.parse(readFileSync(join(dataDir, FILE), 'utf8')));
  } catch {
    return [];
  }
}

/**
 * Why an agent should be checked as the release that it runs as, in words that follow its name; `null`: it was, and asks. One
 * that does not tell its release goes by any check of its profile.
 */
export function uncheckedWords(
  dataDir: string,
  { agent, profile, program }: Pick<AgentCheck, 'agent' | 'profile'> & { readonly program: string | null },
): string | null {
  const own = readChecks(dataDir).filter((each) => each.agent === agent && each.profile === profile);
  const found = own.findLast((each) => program === null || each.program === program);
  const release = program ?? 'a release that it does not tell';
  if (found === undefined) return `runs as ${release}, never checked for whether it asks before it acts`;
  return found.verdict === 'asks' ? null : `${OUTCOMES[found.verdict]}, by its last check as ${found.program}`;
}

/** Puts a check on record in place of the one of the same agent, profile and program. Throws the file system's own error. */
export function recordCheck(dataDir: string, check: AgentCheck): void {
  const others = readChecks(dataDir).filter(
    ({ agent, profile, program }) => agent !== check.agent || profile !== check.profile || program !== check.program,
  );
  const checks = [...others, check].slice(-MOST_CHECKS);
  writePrivately(join(dataDir, FILE), `${JSON.stringify(checks, null, 2)}\n`);
}

const FILE = 'agent-checks.json';
const MOST_CHECKS = 200;
