import { afterEach, describe, expect, test } from 'vitest';
import { ACP_PROFILES } from '../../../../src/agents/backends/acp/acp-profiles.ts';
import type { AcpProfile } from '../../../../src/agents/backends/acp/acp-profiles.ts';
import { BackendError } from '../../../../src/agents/backends/backend.ts';
import type { AgentSession } from '../../../../src/agents/backends/backend.ts';
import { ACTS_UNASKED } from '../../../../src/config/checks/check-agents.ts';
import { gateThat, person, prompt, recorder } from '../conversation.ts';
import { FAKE_ACP, acpRig } from './acp-rig.ts';
import type { AcpRig } from './acp-rig.ts';
import type { FakeAct } from './fake-acp-acts.ts';

const SEAT = { channel: 'console:demo', agent: 'dev', name: 'Developer', persona: '' };
const MODES = { session: { modes: { currentModeId: 'default', availableModes: [{ id: 'default' }] } } };
const START = { profile: 'kimi', command: process.execPath, args: [FAKE_ACP] } as const;

let rig: AcpRig | null = null;
let session: AgentSession | null = null;

afterEach(async () => {
  await session?.close();
  await rig?.stop();
  [rig, session] = [null, null];
});

/** Returns the result of a turn in which a tool ran without asking. */
async function unasked(kind: string): Promise<unknown> {
  rig = await acpRig(MODES, { ...START, trusted: true });
  session = await rig.backend.open(SEAT);
  const body = { sessionUpdate: 'tool_call', toolCallId: 'call-1', title: 'x', kind, status: 'completed' };
  const acts: readonly FakeAct[] = [
    { do: 'update', body },
    { do: 'write', text: 'Done.' },
  ];
  rig.play(...acts);
  const { gate } = { gate: gateThat(() => 'reject') };
  const report = { ...recorder().report, gate };
  return await session.prompt(prompt({ messages: [person(1, 'go')], text: 'go' }), report).catch(String);
}

describe('T73 an agent known to act without asking', () => {
  test('is not started, and the error says what to set', async () => {
    rig = await acpRig(MODES, START);
    const error: unknown = await rig.backend.open(SEAT).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(BackendError);
    expect(error).toMatchObject({ terminal: true });
    expect(String(error)).toContain('Kimi Code writes files of a Git repository without asking');
    expect(String(error)).toContain('set "trusted": true at this agent');
    expect(rig.told.pids).toEqual([]);
  });

  test('is started when it is trusted, and may do what it is trusted with', async () => {
    expect(await unasked('edit')).toEqual({ how: 'completed' });
  });

  test('is stopped for everything else that it does without asking, also when it is trusted', async () => {
    expect(await unasked('execute')).toContain('ran "x" without asking');
  });

  test('is known by its profile, in the words of the configuration', () => {
    const profiles: readonly (readonly [string, AcpProfile])[] = Object.entries(ACP_PROFILES);
    const known = profiles.flatMap(([name, { actsUnasked }]) => (actsUnasked ? [[name, actsUnasked.words]] : []));
    expect(Object.fromEntries(known)).toEqual(ACTS_UNASKED);
  });
});
