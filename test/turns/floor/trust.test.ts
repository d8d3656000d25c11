import { describe, expect, test } from 'vitest';
import type { Command } from '../../../src/turns/floor/command.ts';
import { decide } from '../../../src/turns/floor/decide.ts';
import { emptyFloor } from '../../../src/turns/floor/floor.ts';
import type { Floor } from '../../../src/turns/floor/floor.ts';
import { react } from '../../../src/turns/floor/react.ts';

const ASK = { type: 'askTrust', agent: 'dev', id: 'a1', folder: '/work', detail: '.mcp.json' } as const;

/** Returns the open questions after these commands, their refusals, and their effects. */
function after(...commands: readonly Command[]) {
  let floor: Floor = emptyFloor('console:demo');
  const refusals: string[] = [];
  const effects: string[] = [];
  for (const command of commands) {
    const decision = decide(floor, command, 1);
    if (!decision.ok) {
      refusals.push(decision.refusal);
      continue;
    }
    for (const fact of decision.facts)
      for (const effect of react(fact, decision.floor))
        effects.push(
          effect.type === 'announce' ? `${effect.announcement.kind} ${effect.key} ×${effect.repeat}` : effect.type,
        );
    floor = decision.floor;
  }
  return { asked: (floor.trust ?? []).map(({ agent, id, shown }) => `${agent} ${id} ${shown}`), refusals, effects };
}

describe("T72 a question about the files in an agent's folder", () => {
  test('is asked once for the same files, and has buttons after the channel shows it', () => {
    expect(after(ASK, ASK, { type: 'trustShown', agent: 'dev', id: 'a1' })).toEqual({
      asked: ['dev a1 true'],
      refusals: ['already'],
      effects: ['trust trust:dev:a1 ×1', 'offerTrust'],
    });
  });

  test('is replaced by a question about other files of the same agent, and not by one of another agent', () => {
    const other = { ...ASK, agent: 'qa' };
    expect(after(ASK, other, { ...ASK, id: 'b2' })).toEqual({
      asked: ['qa a1 false', 'dev b2 false'],
      refusals: [],
      effects: [
        'trust trust:dev:a1 ×1',
        'offerTrust',
        'trust trust:qa:a1 ×1',
        'offerTrust',
        'trustAnswered trust:dev:a1 ×2',
        'trust trust:dev:b2 ×1',
        'offerTrust',
      ],
    });
  });

  test('is closed by an answer about these files, which replaces its text; other answers change nothing', () => {
    const answer = { type: 'answerTrust', agent: 'dev', choice: 'trusted', by: 'Ann' } as const;
    const { asked, refusals, effects } = after(
      ASK,
      { ...answer, id: 'b2' },
      { ...answer, id: 'a1' },
      { ...answer, id: 'a1' },
    );
    expect([asked, refusals, effects.at(-1)]).toEqual([
      [],
      ['stale-question', 'stale-question'],
      'trustAnswered trust:dev:a1 ×2',
    ]);
  });

  test('is closed when the files are deleted', () => {
    expect(after(ASK, { type: 'dropTrust', agent: 'dev', keeps: null }).asked).toEqual([]);
    expect(after(ASK, { type: 'dropTrust', agent: 'dev', keeps: 'a1' }).refusals).toEqual(['stale-question']);
  });
});
