import { spawnSync } from 'node:child_process';
import { parseArgs } from 'node:util';
import { z } from 'zod';

/** Severities of vulnerabilities, the mildest first. */
export const LEVELS = ['info', 'low', 'moderate', 'high', 'critical'] as const;
export type Level = (typeof LEVELS)[number];

/** The result of an audit in one or more lines. `impossible`: the registry has no audits or did not answer. */
export type Audit = { readonly outcome: 'clean' | 'vulnerable' | 'impossible'; readonly text: string };

const reportSchema = z.object({
  auditReportVersion: z.literal(2),
  vulnerabilities: z.record(
    z.string(),
    z.object({ severity: z.enum(LEVELS), range: z.string(), nodes: z.array(z.string()) }),
  ),
});

/** npm's answer when it could not reach the registry's audit. */
const failureSchema = z.union([
  z.object({ error: z.object({ summary: z.string().min(1) }) }).transform(({ error }) => error.summary),
  z.object({ message: z.string().min(1) }).transform(({ message }) => message),
]);

/**
 * Judges the output of `npm audit --json`: `vulnerable` when a package has a vulnerability of this level or a graver
 * level. Throws when the output is neither a report nor npm's answer that it could not ask.
 */
export function judged(output: string, level: Level): Audit {
  const answer: unknown = parsed(output);
  const report = reportSchema.safeParse(answer);
  if (report.success) return ofReport(report.data, level);
  const failure = failureSchema.safeParse(answer);
  if (!failure.success) throw new Error(`npm audit gave no report: ${output.slice(0, 200)}`);
  return { outcome: 'impossible', text: `No audit possible: ${withoutAddress(failure.data)}` };
}

function parsed(output: string): unknown {
  try {
    return JSON.parse(output);
  } catch {
    return null;
  }
}

function ofReport({ vulnerabilities }: z.output<typeof reportSchema>, level: Level): Audit {
  const found = Object.entries(vulnerabilities);
  const grave = found.filter(([, { severity }]) => LEVELS.indexOf(severity) >= LEVELS.indexOf(level));
  const milder = found.length - grave.length;
  const rest = milder === 0 ? '' : ` (${milder} below ${level})`;
  if (grave.length === 0)
    return { outcome: 'clean', text: `No known vulnerability of level ${level} or above${rest}.` };
  const lines = grave.map(
    ([name, { severity, range, nodes }]) => `${severity}: ${name} ${range} in ${nodes.join(', ')}`,
  );
  return {
    outcome: 'vulnerable',
    text: [...lines, 'Update these packages. npm audit --omit=dev says how.'].join('\n'),
  };
}

function withoutAddress(message: string): string {
  return message.replaceAll(/https?:\/\/\S+/g, 'the registry').split('\n')[0] ?? '';
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { level: { type: 'string', default: 'low' } } });
  const level = z.enum(LEVELS).parse(values.level);
  const { error, stdout } = spawnSync('npm', ['audit', '--omit=dev', '--json'], { encoding: 'utf8', timeout: 120_000 });
  if (error !== undefined) throw error;
  const { outcome, text } = judged(stdout, level);
  process.stdout.write(`${text}\n`);
  process.exitCode = outcome === 'vulnerable' ? 1 : 0;
}
