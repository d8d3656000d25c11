import { contract } from '../contract.ts';
import { llmRig } from './llm-rig.ts';

for (const provider of ['openai', 'anthropic', 'openai-compatible'] as const) {
  contract(`llm ${provider}`, () => llmRig(provider));
}
