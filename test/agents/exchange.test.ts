import { describe, expect, test } from 'vitest';
import { table } from './table.ts';

const REQUEST = 'Please build a login page with email and password';

describe('the demo', () => {
  test('answers one message with a spec, code and checks, and rests within 25 seconds', async () => {
    const { write, pass, said, floor } = await table();
    await write(REQUEST);
    await pass(25);
    expect(said().map((line) => line.slice(0, 40))).toEqual([
      `u1: ${REQUEST}`.slice(0, 40),
      'pm: **A login page with email and password**'.slice(0, 40),
      'dev: Done: A login page with email and password'.slice(0, 40),
      "qa: I tried dev's `loginPage`:\n\n- ✓ `login".slice(0, 40),
    ]);
    expect(floor().condition).toBe('resting');
    expect(floor().seats.map(({ status }) => status)).toEqual(['QUEUED', 'QUEUED', 'QUEUED']);
  });

  test('answers a second message on the same floor', async () => {
    const { write, pass, said } = await table();
    await write(REQUEST);
    await pass(25);
    await write('dev: build a clock');
    await pass(25);
    expect(
      said()
        .slice(5)
        .map((line) => line.slice(0, 22)),
    ).toEqual(['dev: Done: a clock. He', "qa: I tried dev's `clo"]);
  });

  test('asks a question, waits, and continues with the answer', async () => {
    const { write, pass, said, status } = await table();
    await write('Build a note store with Postgres or SQLite');
    await pass(6);
    expect(status('pm')).toBe('WAITING');
    await write('SQLite');
    await pass(25);
    expect(said()[1]).toContain('**Postgres** or **SQLite**?');
    expect(said()[3]).toMatch(/^pm: \*\*SQLite\*\* it is\./);
    expect(said()[4]).toContain('dev: Done: A note store');
  });

  test('reacts to a message injected into a turn', async () => {
    const { write, pass, said, facts } = await table();
    await write(REQUEST);
    await pass(2);
    await write('with a dark theme');
    await pass(30);
    expect(said()[2]).toMatch(/^pm: .*Noted: with a dark theme\. It goes into the spec\./s);
    expect(facts).toContainEqual(expect.objectContaining({ type: 'injectReported', outcome: 'injected' }));
  });

  test('prompts an agent again with a message that it refused', async () => {
    const { write, pass, said } = await table();
    await write('dev: refuse inject');
    await pass(4);
    await write('is it done?');
    await pass(30);
    expect(said().at(-1)).toContain('dev: Anna, first your question (is it done)');
  });

  test('loses no request that arrives while an agent is about to pass', async () => {
    const { write, pass, said } = await table();
    await write('dev: pass');
    await write(REQUEST);
    await pass(30);
    expect(said()[2]).toContain('dev: Done: a login page');
  });

  test('answers first after an interrupt, then finishes; nothing is lost or repeated', async () => {
    const { write, pass, said, status } = await table({ mode: 'interrupt' });
    await write('dev: slow');
    await pass(15);
    await write('how long will it take?');
    await pass(1);
    expect(status('dev')).toBe('ACTIVE');
    await pass(60);
    const [, first, question, answer, rest] = said();
    expect(question).toBe('u1: how long will it take?');
    expect(answer).toBe(
      'dev: Anna, first your question (how long will it take): yes as far as I can see, and I check it with a test.',
    );
    const whole = `${first} ${rest?.replace('dev: ', '')}`.replace(/\s+/g, ' ');
    expect(whole).toMatch(/^dev: I take my time .* In the mode "queue" .* That was all of it\.$/);
    expect(whole.match(/In the mode/g)).toHaveLength(4);
  });

  test('ends the turn of a hanging agent at its time limit', async () => {
    const { write, pass, announced, said, status } = await table();
    await write('pm: hang');
    await pass(59);
    expect(status('pm')).toBe('ACTIVE');
    await pass(2);
    expect(announced).toEqual([{ kind: 'timeout', agent: 'pm' }]);
    expect(status('pm')).toBe('QUEUED');
    await pass(5);
    await write(REQUEST);
    await pass(25);
    expect(said().some((line) => line.startsWith('pm: **A login page'))).toBe(true);
  });

  test('keeps the text of an agent that does not end its turn', async () => {
    const { write, pass, announced, said } = await table();
    await write('dev: forget');
    await pass(80);
    expect(said()[1]).toBe('dev: This is all I have to say, and I forget to say that I am done.');
    expect(announced).toEqual([{ kind: 'timeout', agent: 'dev' }]);
  });

  test('ends the turn of a silent agent if the channel detects the ends of turns', async () => {
    const { write, pass, announced, facts } = await table({ autoDetectTurnEnd: true });
    await write('dev: forget');
    await pass(25);
    expect(facts).toContainEqual(expect.objectContaining({ type: 'turnEnded', agent: 'dev', outcome: 'lapsed' }));
    expect(announced).toEqual([]);
  });

  test('continues with the next agent when one crashes, and lets it join again', async () => {
    const { write, pass, announced, status, said } = await table();
    await write('dev: crash');
    await pass(2);
    expect(announced).toEqual([{ kind: 'disconnect', agent: 'dev', cause: 'exited with code 137' }]);
    expect(said()[1]).toBe('dev: I start, and then … (cut off)');
    expect(status('dev')).toBe('OFFLINE');
    await pass(2);
    expect(status('dev')).toBe('QUEUED');
  });

  test('is silent after a stop, and keeps the shown text', async () => {
    const { write, pass, apply, said, floor } = await table();
    await write('dev: slow');
    await pass(8);
    await apply({ type: 'stop', by: 'u1' });
    await pass(60);
    expect(said()).toHaveLength(2);
    expect(said()[1]).toMatch(/^dev: I take my time/);
    expect(floor().turn).toBeNull();
  });

  test('gives the floor to the agent that its holder hands it to', async () => {
    const { write, pass, facts } = await table();
    await write('pm: hand to qa');
    await pass(20);
    const granted = facts.flatMap((fact) => (fact.type === 'turnGranted' ? [fact.agent] : []));
    expect(granted).toEqual(['pm', 'qa', 'dev']);
  });

  test('asks a facilitator who is next', async () => {
    const { write, pass, facts } = await table({ order: 'facilitator', facilitator: 'qa' });
    await write(REQUEST);
    await pass(40);
    const granted = facts.flatMap((fact) => (fact.type === 'turnGranted' ? [fact.agent] : []));
    expect(granted).toEqual(['pm', 'dev', 'qa']);
    expect(facts.filter(({ type }) => type === 'facilitatorAnswered').length).toBeGreaterThan(0);
  });
});
