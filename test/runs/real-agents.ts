import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { REAL_AGENTS } from '../agents/real/agents.ts';
import { ROOT } from '../docs/documents.ts';
import { outcome } from './scenario.ts';
import type { Outcome, Scenario, Size, Wanted } from './scenario.ts';

/** Row 17: published coding agents with a mocked model. */
export const REAL: readonly Scenario[] = [{ id: 17, name: 'real agents with a mocked model', run: checked }];

/** The result of trials with several agents, which `test/agents/real/main.ts` prints beside those of each agent. */
type Joint = { readonly failures: readonly string[] };

/** The used fields of the result that `test/agents/real/main.ts` prints last for each agent. */
type Told = Joint & {
  readonly check: string;
  readonly filesChangedUnasked: number;
  readonly settingsChanged: readonly string[];
  readonly answers: Readonly<Record<string, number>>;
};

/** Installs each agent and runs its checks, including `conch agent check`. `short` checks no agent. */
async function checked(size: Size): Promise<Outcome> {
  if (size === 'short') return outcome({ agents: 0 }, {});
  const child = spawn(process.execPath, ['test/agents/real/main.ts'], {
    cwd: ROOT,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const [said] = await Promise.all([text(child.stdout), once(child, 'close')]);
  const all = JSON.parse(said.trim().split('\n').at(-1) ?? '{}') as Readonly<Record<string, Told | Joint>>;
  const failed = Object.entries(all).filter(([, { failures }]) => failures.length > 0);
  const told = Object.entries(all).filter((entry): entry is [string, Told] => 'check' in entry[1]);
  const measured = Object.fromEntries(told.map(([profile, { check }]) => [profile, check]));
  const wanted: Record<string, Wanted> = { changedUnasked: 0, settingsChanged: 0, allowedAlways: 0, failures: 0 };
  for (const { profile, check } of REAL_AGENTS) wanted[profile] = check;
  const sum = (count: (each: Told) => number) => told.reduce((so, [, each]) => so + count(each), 0);
  return outcome(
    {
      ...measured,
      changedUnasked: sum(({ filesChangedUnasked }) => filesChangedUnasked),
      settingsChanged: sum(({ settingsChanged }) => settingsChanged.length),
      allowedAlways: sum(({ answers }) => answers['allow_always'] ?? 0),
      failures: failed.length,
      ...Object.fromEntries(failed),
    },
    wanted,
  );
}
