import { contract } from '../contract.ts';
import { fakeRemoteRig } from './remote-fake.ts';

contract('remote', () => fakeRemoteRig(), { asks: true });

contract('remote, an agent that can be steered', async () => ({
  ...(await fakeRemoteRig({ initialize: { _meta: { steering: { supported: true } } } })),
  inject: 'injected',
}));
