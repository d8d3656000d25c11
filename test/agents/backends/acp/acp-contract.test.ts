import { acpRig } from './acp-rig.ts';
import { contract } from '../contract.ts';

contract('acp', () => acpRig(), { asks: true });

contract('acp, an agent that can be steered', async () => ({
  ...(await acpRig({ initialize: { _meta: { steering: { supported: true } } } })),
  inject: 'injected',
}));
