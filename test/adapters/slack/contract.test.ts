import { contract } from '../contract.ts';
import { rig } from './stage.ts';

contract(rig);
