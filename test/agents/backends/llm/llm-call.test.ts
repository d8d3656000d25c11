import { describe, expect, test } from 'vitest';
import type { Usage } from '../../../../src/agents/backends/backend.ts';
import { LlmCall } from '../../../../src/agents/backends/llm/llm-models.ts';
import type { ModelPrices } from '../../../../src/agents/backends/llm/llm-models.ts';

const PRICES = { inputUsdPerMTok: 2.5, outputUsdPerMTok: 10 };

/**
 * Returns the reported usage of a call with 4,500 input tokens and 100 output tokens. `read`: input tokens read from
 * the cache. `kept`: input tokens written to the cache.
 */
function told(prices: ModelPrices, [read, kept]: readonly (number | undefined)[] = [3_000, 500]): Usage | undefined {
  const used: Usage[] = [];
  const call = new LlmCall(
    { provider: 'anthropic', modelName: 'm', prices },
    { usage: (usage) => void used.push(usage), now: () => 0 },
  );
  call.begin();
  const details = { noCacheTokens: undefined, cacheReadTokens: read, cacheWriteTokens: kept };
  call.end(
    'answered',
    {
      inputTokens: 4_500,
      outputTokens: 100,
      totalTokens: 4_600,
      inputTokenDetails: details,
      outputTokenDetails: { textTokens: 100, reasoningTokens: 0 },
    },
    { request: 0, answer: 0 },
  );
  return used[0];
}

describe('cached input', () => {
  test.each([
    [{}, 12_250],
    [{ cachedInputUsdPerMTok: 0.25 }, 5_500],
    [{ cachedInputUsdPerMTok: 0.25, cacheWriteUsdPerMTok: 3 }, 5_750],
    [{ cachedInputUsdPerMTok: 0, cacheWriteUsdPerMTok: 0 }, 3_500],
  ])('costs, with the prices %j, %s micro-dollars', (ofCache, costMicros) => {
    const use = { input: 4_500, output: 100, cached: 3_000, source: 'computed' };
    expect(told({ ...PRICES, ...ofCache })).toMatchObject({ tokens: 4_600, costMicros, use });
  });

  test('has no price when input has none', () => {
    expect(told({ outputUsdPerMTok: 10, cachedInputUsdPerMTok: 1 })).toMatchObject({ use: { source: 'unpriced' } });
  });

  test('never makes the uncached input negative', () => {
    expect(told({ ...PRICES, cachedInputUsdPerMTok: 1 }, [6_000, 0])).toMatchObject({ costMicros: 7_000 });
  });

  test('counts as ordinary input when the provider does not report it', () => {
    expect(told({ ...PRICES, cachedInputUsdPerMTok: 1 }, [])).toMatchObject({ costMicros: 12_250 });
  });
});
