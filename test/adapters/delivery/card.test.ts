import { describe, expect, test } from 'vitest';
import { cardOf, questionOpened } from '../../../src/adapters/delivery/card.ts';
import { parseLine } from '../../../src/turns/commands/parse.ts';
import { clockLeft } from '../rig.ts';
import type { FloorView } from '../../../src/turns/view.ts';

const RESTING: FloorView = {
  channel: 'console:demo',
  store: 'x',
  condition: 'resting',
  mode: 'inject',
  order: 'round-robin',
  epoch: 4,
  holder: null,
  seats: [],
  next: [],
  held: [],
  turns: null,
  obstacles: [],
};

const ASKED = { question: 8, key: 'K8', title: 'Delete it', detail: 'rm -rf build', shown: true };
const HELD: FloorView = {
  ...RESTING,
  condition: 'open',
  next: ['qa', 'pm'],
  holder: {
    agent: 'dev',
    epoch: 4,
    status: 'ACTIVE',
    startedAt: 0,
    deadlineAt: 72_000,
    waitingFor: null,
    working: false,
    approval: null,
  },
};

function shown(view: FloorView): string {
  return cardOf(
    view,
    (agent) => agent,
    (endsAt) => clockLeft(endsAt, 0),
  ).text;
}

function buttons(view: FloorView): readonly string[] {
  const card = cardOf(
    view,
    (agent) => agent,
    () => '',
  );
  return card.buttons.map(({ label, line, drawnFor }) => `${label}: ${line} ${drawnFor}`);
}

describe('the card of a floor', () => {
  test('shows the holder, the time left and the next agents', () => {
    expect(shown(HELD)).toBe('🎤 dev · 1:12 left · next: qa, pm');
    expect(shown({ ...HELD, held: ['m1'] })).toBe('🎤 dev · 1:12 left · next: qa, pm · 1 message held');
  });

  test.each([
    ['at rest', RESTING, '💤 nobody holds the floor'],
    [
      'T17 at rest after everybody had a turn',
      { ...RESTING, obstacles: [{ why: 'resting', after: 'rounds' }] },
      '💤 nobody holds the floor · The floor rests: all agents had a turn. To continue: write a message, or /floor resume.',
    ],
    [
      'T17 stopped',
      { ...RESTING, obstacles: [{ why: 'stopped' }, { why: 'resting', after: 'rounds' }] },
      '💤 nobody holds the floor · ⏹ A person stopped the floor. To continue: write a message, or /floor resume.',
    ],
    ['paused', { ...RESTING, condition: 'paused' }, '⏸ paused'],
    ['while history is read', { ...RESTING, obstacles: [{ why: 'catching-up' }] }, '🔄 reading missed messages'],
    [
      'while it is read in a turn',
      { ...HELD, obstacles: [{ why: 'catching-up' }] },
      '🎤 dev · 1:12 left · next: qa, pm',
    ],
    ['between two turns', { ...RESTING, condition: 'open' }, '⏳ choosing the next agent'],
  ] as const)('%s: shows the state of the floor', (_when, view, text) => {
    expect(shown(view)).toBe(text);
  });

  test('names at most five of the next agents', () => {
    expect(shown({ ...RESTING, next: ['a', 'b', 'c', 'd', 'e', 'f', 'g'] })).toContain('a, b, c, d, e and 2 more');
  });

  test('has buttons for its turn, each with an existing command', () => {
    expect(buttons(HELD)).toEqual(['Skip: /floor skip tx.4', 'Stop: /stop tx.4', 'Pause: /floor pause tx.4']);
    expect(buttons({ ...RESTING, condition: 'paused' })).toEqual(['Resume: /floor resume tx.4']);
    const asking: FloorView = {
      ...HELD,
      holder: { ...HELD.holder!, status: 'WAITING', waitingFor: 'approval', deadlineAt: null, approval: ASKED },
    };
    expect(buttons(asking).slice(0, 4)).toEqual([
      'Allow once: /allow 8 qK8',
      'Deny: /reject 8 qK8',
      'Deny with reason…: /reject 8 qK8',
      'Whole input: /floor status qK8',
    ]);
    const about = { step: 1, steps: 9, tool: 'fetch', folder: null, why: '⚠ x', says: null, danger: true } as const;
    const danger = { ...asking, holder: { ...asking.holder!, approval: { ...ASKED, about } } };
    const drawn = cardOf(
      danger,
      (agent) => agent,
      () => '',
    );
    expect(drawn.buttons.slice(0, 4).map(({ label, style }) => `${label}: ${style}`)).toEqual([
      'Deny: good',
      'Deny with reason…: plain',
      'Whole input: plain',
      'Allow once: danger',
    ]);
    for (const { line } of cardOf(
      asking,
      (agent) => agent,
      () => '',
    ).buttons)
      expect(parseLine(line).ok).toBe(true);
  });

  test('has a form for a question with a text answer, Done for a link, and Decline first for a dangerous question', () => {
    const field = { name: 'name', label: 'Name', hint: '', kind: 'text', required: true, options: [] } as const;
    const known = { step: 1, steps: 9, tool: 'ask of hub', folder: null, why: 'hub asks', says: null };
    const buttonsOf = (about: object): readonly string[] => {
      const { holder } = HELD;
      if (holder === null) throw new Error('nobody has the floor');
      const approval = { ...ASKED, about: { ...known, ...about } };
      const view = { ...HELD, holder: { ...holder, status: 'WAITING', waitingFor: 'approval', approval } } as const;
      const { buttons: drawn, text } = cardOf(view, String, () => '');
      expect(text).toContain('✋ dev asks a question');
      return drawn.slice(0, 3).map(({ label, line, style, opens }) => `${label} ${line} ${style} ${opens?.what}`);
    };
    const form = { answer: '<name>', form: [field] };
    const whole = 'Whole input /floor status plain input';
    expect(buttonsOf(form)).toEqual(['Answer… /answer 8 good form', 'Decline /reject 8 danger undefined', whole]);
    expect(buttonsOf({ answer: 'done' })[0]).toBe('Done /answer 8 done good undefined');
    expect(buttonsOf({ ...form, danger: true })).toEqual([
      'Decline /reject 8 good undefined',
      whole,
      'Answer… /answer 8 danger form',
    ]);
  });

  describe('of a floor with background runs', () => {
    const asides = [{ agent: 'qa', run: 3, question: { ...ASKED, key: 'K9', question: 9 } }];
    const HALTED = { ...ASKED, title: 'used 200 of 200 steps', key: 'K9', question: 9, pause: 'turn_limit' } as const;

    test('shows the agents with background runs, and the number of a request that waits for an answer', () => {
      expect(shown({ ...HELD, asides: [{ agent: 'qa', run: 3 }] })).toBe(
        '🎤 dev · 1:12 left · next: qa, pm · 🏃 background: qa',
      );
      expect(shown({ ...RESTING, asides })).toBe('💤 nobody holds the floor · 🏃 background: qa waits (9)');
    });

    test("has buttons with the request's number beside the holder's buttons", () => {
      const always = [{ rule: 'execute(npm test)', words: 'exactly this command' }];
      const [aside] = asides;
      const offering = { ...aside!, question: { ...aside!.question, always } };
      expect(buttons({ ...HELD, holder: { ...HELD.holder!, approval: ASKED }, asides: [offering] })).toEqual([
        'Allow once: /allow 8 qK8',
        'Deny: /reject 8 qK8',
        'Deny with reason…: /reject 8 qK8',
        'Whole input: /floor status qK8',
        'Allow once (9): /allow 9 qK9',
        'Always… (9): /allow 9 always qK9',
        'Deny (9): /reject 9 qK9',
        'Deny with reason… (9): /reject 9 qK9',
        'Whole input (9): /run status qa+ qK9',
        'Skip: /floor skip tx.4',
        'Stop: /stop tx.4',
        'Pause: /floor pause tx.4',
        'Stop qa+: /run abort qa+ tx.3',
      ]);
    });

    test('has no buttons for a request that is not posted yet', () => {
      const hidden = [{ ...asides[0]!, question: { ...ASKED, key: 'K9', question: 9, shown: false } }];
      expect(buttons({ ...RESTING, asides: hidden })).toEqual([
        'Pause: /floor pause tx.4',
        'Stop qa+: /run abort qa+ tx.3',
      ]);
    });

    test('has buttons to continue, complete or abort a run that reached its limit', () => {
      expect(buttons({ ...RESTING, asides: [{ agent: 'qa', run: 3, question: HALTED }] })).toEqual([
        'Continue (9): /allow 9 qK9',
        'Complete (9): /run complete qa+ qK9',
        'Abort (9): /reject 9 qK9',
        'Pause: /floor pause tx.4',
      ]);
    });

    test("keeps the floor's buttons when not all requests fit", () => {
      const many = Array.from({ length: 12 }, (_, index) => ({
        agent: `a${index}`,
        run: 1,
        question: { ...ASKED, question: 10 + index },
      }));
      const all = buttons({ ...HELD, asides: many });
      expect(all.length).toBeLessThanOrEqual(24);
      expect(all).toContain('Stop: /stop tx.4');
    });

    test('opens the whole input of a request by its button, and nothing for a closed request', () => {
      const view = { ...RESTING, asides };
      const pressed = { line: '/run status qa+', drawnFor: 'qK9', opens: 'input' } as const;
      expect(questionOpened(view, pressed)?.text).toBe('Whole input of request 9:');
      expect(questionOpened(view, { ...pressed, drawnFor: 'qK8' })).toBeNull();
      expect(questionOpened(HELD, pressed)).toBeNull();
    });

    test('gives each button an existing command', () => {
      for (const question of [ASKED, HALTED])
        for (const line of buttons({ ...RESTING, asides: [{ agent: 'qa', run: 3, question }] }))
          expect(parseLine(line.replace(/^[^/]*|\s[\w.]+$/g, '')).ok).toBe(true);
    });
  });

  test('T37 says that the floor pauses after the current turn', () => {
    expect(shown({ ...HELD, condition: 'paused' })).toBe(
      '🎤 dev · 1:12 left · ⏸ paused after this turn · next: qa, pm',
    );
  });

  test('T37 shows "at work" instead of a time left that every tool call would change', () => {
    const { holder } = HELD;
    const working = { ...HELD, holder: holder === null ? null : { ...holder, working: true, deadlineAt: 900_000 } };
    expect(shown(working)).toBe('🎤 dev · at work · next: qa, pm');
    expect(shown(HELD)).toBe('🎤 dev · 1:12 left · next: qa, pm');
  });

  test.each([
    { why: 'limit', budget: 'turns' },
    { why: 'day-limit', budget: 'tokens a day', until: 1 },
    { why: 'stopped' },
  ] as const)('T35 offers to resume a resting floor with the obstacle %j', (obstacle) => {
    expect(buttons({ ...RESTING, obstacles: [obstacle] })).toEqual(['Resume: /floor resume tx.4']);
    expect(buttons({ ...HELD, obstacles: [obstacle] })).toContain('Pause: /floor pause tx.4');
  });
});
