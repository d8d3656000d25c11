import { STEERED, steerable } from '../acp/acp-rig.ts';
import { contract } from '../contract.ts';
import { fakeRemoteRig } from './remote-fake.ts';

contract('remote', () => fakeRemoteRig(), { asks: true });

contract('remote, an agent that can be steered', async () => steerable(await fakeRemoteRig(STEERED)));
