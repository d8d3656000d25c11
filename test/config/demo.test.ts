import { describe, expect, test } from 'vitest';
import { demoModel } from '../../src/config/demo.ts';

describe("the model of the demo's agents", () => {
  test.each([
    [{}, null],
    [{ OPENAI_API_KEY: 'k' }, { provider: 'openai', model: 'gpt-5-mini' }],
    [{ ANTHROPIC_API_KEY: 'k' }, { provider: 'anthropic', model: 'claude-sonnet-4-5' }],
    [
      { OPENAI_API_KEY: 'k', ANTHROPIC_API_KEY: 'k' },
      { provider: 'openai', model: 'gpt-5-mini' },
    ],
    [
      { OPENAI_BASE_URL: 'http://127.0.0.1:11434/v1', OPENAI_API_KEY: 'k', CONCH_MODEL: 'llama3.3' },
      { provider: 'openai-compatible', model: 'llama3.3', baseUrl: 'http://127.0.0.1:11434/v1' },
    ],
  ])('is, with %j in the environment, %j', (env, model) => {
    expect(demoModel(env)).toEqual(model);
  });
});
