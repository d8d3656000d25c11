import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { ROOT } from '../docs/documents.ts';
import { outcome } from './scenario.ts';
import type { Outcome, Scenario, Size } from './scenario.ts';

/** Coding agents as their makers publish them, with a model that is played: row 17. */
export const REAL: readonly Scenario[] = [{ id: 17, name: 'real agents with a mocked model', run: checked }];

const PROFILES = ['claude-code', 'codex', 'opencode', 'gemini', 'qwen'] as const;

/** Installs each and runs its parts, `conch agent check` among them; a short one looks at none. */
async function checked(size: Size): Promise<Outcome> {
  if (size === 'short') return outcome({ agents: 0 }, {});
  const found: Record<string, unknown> = {};
  let passed = 0;
  let changed = 0;
  for (const profile of PROFILES) {
    const text = await printed(['test/agents/real/main.ts', profile]);
    const isInstalled = !text.includes('skipped');
    const [, code] = /conch agent check: code (\d+)/.exec(text) ?? [];
    const { filesChangedUnasked = null } = JSON.parse(text.trim().split('\n').at(-1) ?? '{}') as {
      filesChangedUnasked?: number;
    };
    const failures = text.match(/^ +FAILED [^\n]*/gm)?.map((line) => line.trim()) ?? [];
    if (code === '0') passed += 1;
    changed += filesChangedUnasked ?? 0;
    found[profile] = isInstalled
      ? { check: code === undefined ? 'none' : Number(code), filesChangedUnasked, failures }
      : 'not installed';
  }
  return outcome({ ...found, passed, changed }, { passed: PROFILES.length, changed: 0 });
}

async function printed(args: readonly string[]): Promise<string> {
  const child = spawn(process.execPath, args, { cwd: join(ROOT), stdio: ['ignore', 'pipe', 'ignore'] });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
  await once(child, 'close');
  return text;
}
