import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { WebSocket } from 'ws';
import { startProcessGroup } from '../../../../src/agents/process/process-group.ts';
import type { ProcessGroup } from '../../../../src/agents/process/process-group.ts';
import { systemTimers } from '../../../../src/lib/time.ts';
import type { Timers } from '../../../../src/lib/time.ts';
import { FAKE_ACP, acpRig } from '../acp/acp-rig.ts';
import type { AcpRig } from '../acp/acp-rig.ts';
import type { FakeManners } from '../acp/fake-acp-acts.ts';
import { remoteRig, until } from './remote-rig.ts';

/**
 * The fake agent as a separate program that connects over a WebSocket. When its connection closes, it reconnects at
 * once as a new process. After a crash it stays away, and its grace period ends at once.
 */
export async function fakeRemoteRig(manners: FakeManners = {}): Promise<AcpRig> {
  const rig = await acpRig(manners);
  const agent = { crashed: false, ending: false };
  const timers: Timers = {
    after: (ms, act) => systemTimers.after(ms === GRACE_MS && agent.crashed ? 0 : ms, act),
  };
  const remote = await remoteRig({}, { timers, reconnectGraceMs: GRACE_MS, quietMs: 30 });
  let group: ProcessGroup | null = null;
  const live = async () => {
    while (!agent.crashed && !agent.ending) {
      group = await fakeAgent(rig);
      const socket = remote.dial({ Authorization: `Bearer ${remote.token}` });
      join(group, socket);
      const end = await Promise.race([group.exited.then(() => 'crashed'), once(socket, 'close').then(() => 'closed')]);
      agent.crashed = end === 'crashed';
      socket.terminate();
      await group.stop(200);
    }
  };
  const living = live();
  await until(() => remote.host.slot('dev').link !== null, 'the connection');
  return {
    ...rig,
    backend: remote.backend,
    crash: /^connection lost$/,
    async stop() {
      agent.ending = true;
      await group?.stop(200);
      await living;
      await remote.stop();
      await rig.stop();
    },
  };
}

const GRACE_MS = 60_001;

/** Starts the fake agent of a rig. */
function fakeAgent(rig: AcpRig): Promise<ProcessGroup> {
  const env = { PATH: process.env['PATH'] ?? '', ...rig.env };
  const cwd = import.meta.dirname;
  return startProcessGroup({ command: process.execPath, args: [FAKE_ACP], cwd, env, timers: systemTimers });
}

/** Passes each line of the program on as a message of the connection, and back. */
function join(group: ProcessGroup, socket: WebSocket): void {
  createInterface({ input: group.stdout }).on('line', (line) => socket.send(line, () => undefined));
  group.stdin.on('error', () => undefined);
  socket.on('message', (bytes: Buffer) => void group.stdin.write(`${bytes.toString('utf8')}\n`));
}
