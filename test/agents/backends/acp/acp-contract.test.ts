import { STEERED, acpRig, steerable } from './acp-rig.ts';
import { contract } from '../contract.ts';

contract('acp', () => acpRig(), { asks: true });

contract('acp, an agent that can be steered', async () => steerable(await acpRig(STEERED)));
