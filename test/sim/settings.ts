import type { Config } from '../../src/config/config.ts';
import { loadConfig } from '../../src/config/load.ts';
import type { Random } from './random.ts';

/** The ids of all agents. */
export const AGENTS = ['pm', 'dev', 'qa', 'ops'] as const;
/** The ids of all channels. */
export const CHANNELS = ['console:one', 'console:two', 'console:three'] as const;

/** The store's id in every life. */
export const STORE = 'sim';

/** The agents and channels of one seed. */
export type Scope = { readonly agents: readonly string[]; readonly channels: readonly string[] };

/** Draws the agents and channels of a seed. */
export function drawScope(random: Random): Scope {
  return {
    agents: AGENTS.slice(0, random.pick([1, 2, 3, 3, 4, 4])),
    channels: CHANNELS.slice(0, random.pick([1, 1, 1, 2, 2, 3])),
  };
}

/** Draws a configuration file and reads it with the product's code. */
export function drawConfig(random: Random, scope: Scope): Config {
  const heartbeatSeconds = random.pick([15, 60, 120]);
  const file = {
    turnConfig: {
      heartbeatSeconds,
      heartbeatTimeoutSeconds: heartbeatSeconds * 3,
      defaultTimeoutSeconds: random.pick([20, 60, 60]),
      maxTurnSeconds: random.pick([120, 900]),
      coalesceMs: random.pick([0, 500]),
    },
    agents: scope.agents.map((id) => ({
      id,
      backend: { kind: 'scripted', script: 'pm' },
      priority: random.between(1, 3),
      ...(random.chance(0.2) ? { timeoutSeconds: random.pick([5, 90]) } : {}),
      ...(random.chance(0.3) ? { rejoin: 'manual' } : {}),
    })),
    channels: scope.channels.map((id) => drawChannel(random, scope, id)),
    operators: { users: ['ada'] },
  };
  const text = JSON.stringify(file);
  return loadConfig({
    env: { CONCH_CONFIG: '/sim/turnConfig.json' },
    cwd: '/sim',
    readFile: (path) => (path.endsWith('turnConfig.json') ? { text, public: false } : null),
  });
}

function drawChannel(random: Random, scope: Scope, id: string): object {
  const agents = random.shuffled(scope.agents).slice(0, random.chance(0.7) ? 4 : random.between(0, 4));
  const order = random.weighted({ 'round-robin': 40, priority: 12, manual: 8, mention: 14, facilitator: 20 });
  const names = agents.length > 0;
  const isTight = random.chance(0.15);
  return {
    id,
    agents,
    humanInterruptMode: random.pick(['inject', 'queue', 'interrupt', 'parallel']),
    order: order === 'facilitator' && !names ? 'round-robin' : order,
    rounds: random.pick([0, 1, 1, 2, 3]),
    maxTurns: random.pick([2, 4, 12]),
    waitPolicy: random.pick(['hold', 'release']),
    waitTimeoutSeconds: random.pick([30, 120, 600]),
    interruptGraceSeconds: random.pick([0, 2, 5]),
    autoDetectTurnEnd: random.chance(0.3),
    autoDetectSilenceSeconds: random.pick([3, 10]),
    onRestart: random.pick(['resume', 'resume', 'forfeit']),
    maxHeld: random.pick([2, 5, 500]),
    receipts: random.chance(0.85),
    announceTimeouts: random.chance(0.9),
    ...(names && random.chance(0.4) ? { interruptResponder: random.pick(agents) } : {}),
    ...(names && (order === 'facilitator' || random.chance(0.2)) ? { facilitator: random.pick(agents) } : {}),
    ...(names && random.chance(0.4) ? { defaultAgent: random.pick(agents) } : {}),
    ...(isTight
      ? {
          budgets: random.chance(0.5)
            ? { exchange: random.pick([{ tokens: 1_000 }, { costUsd: 0.01 }, { minutes: 3 }]) }
            : { day: random.pick([{ tokens: 9_000 }, { costUsd: 0.1 }, { minutes: 60 }]) },
        }
      : {}),
  };
}
