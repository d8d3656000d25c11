import { describe, expect, test } from 'vitest';
import { BackendError } from '../../../../src/agents/backends/backend.ts';
import type { AgentSession, Ending, TurnPrompt } from '../../../../src/agents/backends/backend.ts';
import { DEMO_WORDS } from '../../../../src/agents/backends/scripted/demo-words.ts';
import { SCRIPTS } from '../../../../src/agents/backends/scripted/personas.ts';
import { createScriptedBackend } from '../../../../src/agents/backends/scripted/scripted-backend.ts';
import { UNHEARD, person, prompt, recorder, spoken } from '../conversation.ts';
import { createTime } from '../../time.ts';
import type { Time } from '../../time.ts';
import { mustGrowLinearly } from '../../../lib/growth.ts';

async function open(script: keyof typeof SCRIPTS, time: Time): Promise<AgentSession> {
  const backend = createScriptedBackend({ script: SCRIPTS[script], speed: time.speed });
  return await backend.open({ channel: 'console:demo', agent: script, name: script, persona: '' });
}

async function turn(session: AgentSession, time: Time, more: Partial<TurnPrompt>, ms = 60_000) {
  const heard = recorder();
  let ending: Ending | Error | 'open' = 'open';
  const run = session.prompt(prompt(more), heard.report).then(
    (how) => void (ending = how),
    (error: Error) => void (ending = error),
  );
  await time.advance(ms);
  return { heard, run, text: () => heard.text(), ending: () => ending };
}

/** Runs one whole turn of a new agent. */
async function once(script: keyof typeof SCRIPTS, more: Partial<TurnPrompt>) {
  const time = createTime();
  const { text, ending, heard } = await turn(await open(script, time), time, more);
  return { text: text(), ending: ending(), events: heard.events };
}

const m1 = person(1, 'Please build a login page with email and password');

describe('the demo exchange', () => {
  test('answers the request: a spec, code, checks', async () => {
    const spec = await once('pm', { messages: [m1] });
    expect(spec.text).toContain('**A login page with email and password**: what we build for Anna');
    expect(spec.text).toContain('"email" is covered, with a clear message when something is wrong with it.');
    expect(spec.ending).toEqual({ how: 'completed', handTo: 'dev' });

    const code = await once('dev', { lines: [m1, spoken(2, 'pm', spec.text)] });
    expect(code.text).toContain("The 4 points of pm's list are in.");
    expect(code.text).toContain('export function loginPage(email: string, password: string): string {\n  if (email');
    expect(code.events).toEqual(['work 1', 'work 0', 'tokens']);
    expect(code.ending).toEqual({ how: 'completed', handTo: 'qa' });

    const checks = await once('qa', { lines: [m1, spoken(2, 'pm', spec.text), spoken(3, 'dev', code.text)] });
    expect(checks.text).toContain("I tried dev's `loginPage`:");
    expect(checks.text).toContain('an empty `password` is refused');
    expect(checks.ending).toEqual({ how: 'completed' });
  });

  test('takes 15 to 25 seconds at typing speed', async () => {
    let ms = 0;
    const sleep = async (length: number) => void (ms += length);
    const lines = [m1];
    for (const script of ['pm', 'dev', 'qa'] as const) {
      const backend = createScriptedBackend({ script: SCRIPTS[script], speed: { sleep, wordMs: 75 } });
      const session = await backend.open({ channel: 'console:demo', agent: script, name: script, persona: '' });
      const heard = recorder();
      await session.prompt(prompt({ lines, messages: script === 'pm' ? [m1] : [] }), heard.report);
      lines.push(spoken(lines.length + 1, script, heard.text()));
    }
    expect(ms).toBeGreaterThan(15_000);
    expect(ms).toBeLessThan(25_000);
  });

  test.each(['pm', 'dev', 'qa'] as const)('%s passes when nothing is for it', async (script) => {
    const ops = person(1, '@ops restart the server');
    const roster = ['ops', script].map((id) => ({ id, name: id, status: 'QUEUED', description: '' }));
    const { text, ending } = await once(script, { lines: [ops], messages: [ops], roster });
    expect([text, ending]).toEqual(['', { how: 'passed' }]);
  });

  test('a greeting is answered only by pm', async () => {
    const hello = person(1, 'Hello everybody!');
    const welcome = await once('pm', { messages: [hello] });
    expect(welcome.text).toContain('Hello Anna!');
    const lines = [hello, spoken(2, 'pm', welcome.text)];
    expect((await once('dev', { lines })).ending).toEqual({ how: 'passed' });
    expect((await once('qa', { lines })).ending).toEqual({ how: 'passed' });
  });

  test('a request for dev is built only by dev', async () => {
    const forDev = person(1, 'dev: build a clock');
    expect((await once('dev', { messages: [forDev] })).text).toContain('export function clock(input: string)');
    expect((await once('pm', { lines: [forDev], messages: [] })).ending).toEqual({ how: 'passed' });
  });

  test('an agent that is not present gets no hand-over', async () => {
    const roster = [{ id: 'pm', name: 'pm', status: 'ACTIVE', description: '' }];
    expect((await once('pm', { messages: [m1], roster })).ending).toEqual({ how: 'completed' });
  });

  test('a request in the form of a question is a request', async () => {
    const { text } = await once('pm', { messages: [person(1, 'Can you make the header blue, please?')] });
    expect(text).toContain('**The header blue**: what we build');
  });

  test.each(['!', '@', 'hi ', 'a or ', '[from '])(
    'reads a message in a time that grows linearly with its length: %j',
    async (piece) => {
      await mustGrowLinearly((size) => {
        const message = person(1, `${piece.repeat(size / piece.length)}?`);
        return async () => {
          for (const script of ['pm', 'dev', 'qa'] as const) await once(script, { messages: [message] });
        };
      }, 100_000);
    },
  );

  test('words that are no identifier are turned into an identifier', async () => {
    const { text } = await once('dev', { messages: [person(1, 'build 3D größe-würfel «日本» 🎉')] });
    expect(text).toMatch(/export function [A-Za-z]\w*\(/);
  });
});

describe('an ambiguous request', () => {
  test('is asked about, and the answer goes into the spec', async () => {
    const time = createTime();
    const pm = await open('pm', time);
    const first = await turn(pm, time, { messages: [person(1, 'Build a note store with Postgres or SQLite')] });
    expect(first.text()).toContain('**Postgres** or **SQLite**?');
    expect(first.ending()).toEqual({ how: 'waiting', reason: 'answer' });
    const second = await turn(pm, time, {
      reason: 'resume',
      messages: [person(2, 'SQLite')],
      saidSoFar: [first.text()],
    });
    expect(second.text()).toContain('**SQLite** it is.');
    expect(second.text()).toContain('with SQLite: the smallest version');
    expect(second.ending()).toEqual({ how: 'completed', handTo: 'dev' });
  });

  test('with "which" gets a question, too', async () => {
    expect((await once('pm', { messages: [person(1, 'Which colour is best?')] })).ending).toMatchObject({
      how: 'waiting',
    });
  });
});

describe('a message injected into a turn', () => {
  test('is answered after the next whole sentence', async () => {
    const time = createTime();
    const dev = await open('dev', time);
    const { heard, run, ending } = await turn(dev, time, { messages: [m1] }, 2_500);
    expect(await dev.inject(person(2, 'use passkeys instead'), false)).toBe('injected');
    await time.advance(60_000);
    await run;
    expect(heard.text()).toMatch(
      /password\.\n\nNoted: use passkeys instead\. I take it into account from here on\.\n\nHere is/,
    );
    expect(ending()).toMatchObject({ how: 'completed' });
  });

  test('waits for the end of a code block', async () => {
    const time = createTime();
    const dev = await open('dev', time);
    const { heard } = await turn(dev, time, { messages: [m1] }, 4_500);
    expect(heard.text()).toMatch(/```[^`]+$/);
    await dev.inject(person(2, 'use passkeys instead'), false);
    await time.advance(60_000);
    expect(heard.text()).toMatch(/\n```\n\n@qa, please try to break it\.\n\nNoted: use passkeys instead/);
  });

  test('that is edited is answered; a deleted message is not', async () => {
    const time = createTime();
    const dev = await open('dev', time);
    const { heard } = await turn(dev, time, { messages: [m1] }, 2_500);
    expect(await dev.inject(person(2, 'use passkeys', { change: 'edited' }), true)).toBe('injected');
    expect(await dev.inject(person(3, 'forget me', { change: 'deleted' }), true)).toBe('injected');
    await time.advance(60_000);
    expect(heard.text()).toContain('Noted: use passkeys.');
    expect(heard.text()).not.toContain('forget me');
  });

  test('that is observed and addresses nobody does not change the text', async () => {
    const time = createTime();
    const dev = await open('dev', time);
    const { heard } = await turn(dev, time, { messages: [m1] }, 4_000);
    expect(await dev.inject(person(2, 'by the way'), true)).toBe('injected');
    await time.advance(60_000);
    expect(heard.text()).toBe((await once('dev', { messages: [m1] })).text);
  });

  test('waits for the next prompt when the agent is idle', async () => {
    const time = createTime();
    const dev = await open('dev', time);
    expect(await dev.inject(person(2, 'hello?'), false)).toBe('next-prompt');
    const again = await turn(dev, time, { reason: 'again', messages: [person(2, 'is it done?')], saidSoFar: ['Yes.'] });
    expect(again.text()).toContain('Anna, first your question (is it done)');
    expect(again.ending()).toEqual({ how: 'completed' });
  });

  test('waits for the next prompt when the agent is about to pass, and is answered as if it had come first', async () => {
    const time = createTime();
    const dev = await open('dev', time);
    const { run, ending } = await turn(dev, time, { messages: [] }, 300);
    expect(await dev.inject(m1, false)).toBe('next-prompt');
    await time.advance(1_000);
    await run;
    expect(ending()).toEqual({ how: 'passed' });
    const again = await turn(dev, time, { reason: 'again', messages: [m1] });
    expect(again.text()).toContain('export function loginPage');
  });
});

describe('an interrupted turn', () => {
  test('stops at once; the message is answered first, then the rest is finished, and nothing is repeated', async () => {
    const time = createTime();
    const dev = await open('dev', time);
    const whole = (await once('dev', { messages: [m1] })).text;
    const { heard, run, ending } = await turn(dev, time, { messages: [m1] }, 6_000);
    await dev.interrupt(5_000);
    await run;
    expect(ending()).toEqual({ how: 'interrupted' });
    const said = heard.text();
    expect(whole.startsWith(said)).toBe(true);

    const more = { reason: 'resume', messages: [person(2, 'make it blue')], saidSoFar: [said] } as const;
    const { heard: rest, ending: end } = await turn(dev, time, more);
    const [answer, finish] = rest.messages;
    expect(answer).toBe('Anna, first your message: make it blue. I change that right away.');
    expect(`${said}${finish}`.replace(/\s+/g, '')).toContain("Error('emailismissing')");
    expect(finish?.startsWith('```ts')).toBe(true);
    expect(finish).toContain('@qa, please try to break it.');
    expect(end()).toEqual({ how: 'completed', handTo: 'qa' });
  });

  test('repeats text that did not reach the channel', async () => {
    const time = createTime();
    const pm = await open('pm', time);
    const { run } = await turn(pm, time, { messages: [m1] }, 3_000);
    await pm.interrupt(0);
    await run;
    const { text } = await turn(pm, time, { reason: 'resume', messages: [], saidSoFar: [] });
    expect(text()).toBe((await once('pm', { messages: [m1] })).text);
  });

  test('answers, when it is resumed, the message injected just before the interrupt', async () => {
    const time = createTime();
    const dev = await open('dev', time);
    const { heard, run } = await turn(dev, time, { messages: [m1] }, 4_500);
    await dev.inject(person(2, 'use passkeys instead'), false);
    await dev.interrupt(0);
    await run;
    expect(heard.text()).not.toContain('Noted');
    const { text } = await turn(dev, time, { reason: 'resume', messages: [], saidSoFar: [heard.text()] });
    expect(text()).toMatch(/^Noted: use passkeys instead/);
  });

  test('is dropped when the person says so', async () => {
    const time = createTime();
    const pm = await open('pm', time);
    const { run } = await turn(pm, time, { messages: [m1] }, 3_000);
    await pm.interrupt(0);
    await run;
    const { text } = await turn(pm, time, {
      reason: 'resume',
      messages: [person(2, 'stop, wrong idea')],
      saidSoFar: [],
    });
    expect(text()).toBe('Anna, understood: stop, wrong idea. That comes first.');
  });

  test('continues after a restart from the text in the channel', async () => {
    const whole = (await once('pm', { messages: [m1] })).text;
    const said = whole.slice(0, 60).trimEnd();
    const { text } = await once('pm', { reason: 'resume', lines: [m1], messages: [], saidSoFar: [said] });
    expect(`${said}${text}`.replace(/\s/g, '')).toBe(whole.replace(/\s/g, ''));
  });
});

describe('a demo word', () => {
  test.each(DEMO_WORDS)('in the table works as its example says: $example', async ({ example, word }) => {
    const id = example.slice(0, example.indexOf(':')) as keyof typeof SCRIPTS;
    const { text, ending } = await once(id, { messages: [person(1, example)] });
    expect({ word, ending, said: text !== '' }).toEqual(
      {
        hang: { word, ending: 'open', said: false },
        forget: { word, ending: 'open', said: true },
        crash: { word, ending: new BackendError('exited with code 137'), said: true },
        slow: { word, ending: { how: 'completed' }, said: true },
        ask: { word, ending: { how: 'waiting', reason: 'answer' }, said: true },
        pass: { word, ending: { how: 'passed' }, said: false },
        'refuse inject': { word, ending: { how: 'completed' }, said: true },
        'write a note': { word, ending: { how: 'completed' }, said: true },
        'read the note': { word, ending: { how: 'completed' }, said: true },
        'delete the note': { word, ending: { how: 'completed' }, said: true },
        'break off': { word, ending: { how: 'completed' }, said: true },
        'hand to': { word, ending: { how: 'completed', handTo: 'qa' }, said: true },
      }[word],
    );
  });

  test('T67 "ask" asks once, and continues with the answer', async () => {
    const time = createTime();
    const pm = await open('pm', time);
    const first = await turn(pm, time, { messages: [person(1, 'pm: ask')] });
    const messages = [person(1, 'pm: ask'), person(2, 'Bridge.')];
    const second = await turn(pm, time, { reason: 'resume', open: ['m1'], messages, saidSoFar: [first.text()] });
    expect([second.text(), second.ending()]).toEqual([
      'The answer is: Bridge. I go on with that.',
      { how: 'completed' },
    ]);
    const third = await turn(pm, time, { messages: [person(3, 'pm: ask')] });
    expect(third.ending()).toEqual({ how: 'waiting', reason: 'answer' });
  });

  test('works in a background run, too, where the host appends a note', async () => {
    const { text } = await once('dev', { messages: [person(1, 'write a note\n\n(This is a background run.)')] });
    expect(text).toMatch(/^I write that down\./);
  });

  test('"slow" streams for about 40 seconds', async () => {
    const time = createTime();
    const dev = await open('dev', time);
    const { ending } = await turn(dev, time, { messages: [person(1, 'slow')] }, 35_000);
    expect(ending()).toBe('open');
    await time.advance(10_000);
    expect(ending()).toEqual({ how: 'completed' });
  });

  test('"refuse inject" delays messages to the next prompt', async () => {
    const time = createTime();
    const dev = await open('dev', time);
    await turn(dev, time, { messages: [person(1, 'dev: refuse inject')] }, 5_000);
    expect(await dev.inject(person(2, 'hello?'), false)).toBe('next-prompt');
  });

  test('"crash" during a turn ends the session', async () => {
    const time = createTime();
    const dev = await open('dev', time);
    const { run, ending } = await turn(dev, time, { messages: [m1] }, 3_000);
    await dev.inject(person(2, 'crash'), false);
    await run;
    expect(ending()).toEqual(new BackendError('exited with code 137'));
    await expect(dev.ping()).rejects.toThrow('exited with code 137');
  });

  test('for another agent is ignored', async () => {
    expect((await once('pm', { messages: [person(1, 'dev: crash')] })).ending).toEqual({ how: 'passed' });
  });

  test('inside a longer message is ordinary text', async () => {
    const { ending } = await once('pm', { messages: [person(1, 'build a crash test')] });
    expect(ending).toEqual({ how: 'completed', handTo: 'dev' });
  });
});

describe('an idle session', () => {
  test('remembers what it observed', async () => {
    const time = createTime();
    const dev = await open('dev', time);
    dev.observe?.(person(2, '@dev mind the colours'));
    const { heard } = await turn(dev, time, { messages: [m1] });
    expect(heard.messages[0]).toBe('I saw what Anna wrote: mind the colours.');
  });

  test('chooses the next agent of its chain, never the last speaker', async () => {
    const dev = await open('dev', createTime());
    expect(await dev.choose?.(['pm', 'dev', 'qa'], [m1], UNHEARD)).toBe('pm');
    expect(await dev.choose?.(['pm', 'dev', 'qa'], [m1, spoken(2, 'pm', 'x')], UNHEARD)).toBe('dev');
    expect(await dev.choose?.(['ops'], [m1], UNHEARD)).toBe('ops');
    expect(await dev.choose?.([], [m1], UNHEARD)).toBeNull();
  });

  test('answers liveness checks until it is closed, and then accepts no prompt', async () => {
    const time = createTime();
    const dev = await open('dev', time);
    await expect(dev.ping()).resolves.toBeUndefined();
    await dev.close();
    await expect(dev.ping()).rejects.toThrow(BackendError);
    expect((await turn(dev, time, { messages: [m1] })).ending()).toBeInstanceOf(BackendError);
  });
});

describe('a turn of a review', () => {
  const signals = { done: 'DONE', pass: 'PASS', fail: 'FAIL' };
  const asked = (role: 'primary' | 'reviewer', text: string) => ({
    task: { role, signals },
    text: `Who is here.\n\nYou are here.\nTask: ${text}`,
  });

  test('ends with the verdict of its task, and answers a person first', async () => {
    const time = createTime();
    const qa = await open('qa', time);
    const { text } = await turn(qa, time, { ...asked('reviewer', 'fail'), messages: [person(1, 'mind the colours')] });
    expect(text()).toMatch(/^Anna, .*mind the colours[^]*\n---\nThe task contradicts itself\.\nFAIL$/);
  });

  test('gives its verdict again when it is asked to repair it', async () => {
    const time = createTime();
    const qa = await open('qa', time);
    await turn(qa, time, asked('reviewer', 'build a clock'));
    const repair = { task: { role: 'reviewer', signals } as const, text: 'Your review has no usable verdict.' };
    expect((await turn(qa, time, repair)).text()).toBe('[major] An empty input is accepted\nREVISE');
  });

  test('continues after an interrupt with the rest of its text, and repeats nothing', async () => {
    const time = createTime();
    const qa = await open('qa', time);
    const said = 'The task contradicts';
    const rest = await turn(qa, time, { ...asked('reviewer', 'fail'), reason: 'resume', saidSoFar: [said] });
    expect(rest.text()).toBe('itself.\nFAIL');
  });

  test('does what a person asks by a demo word', async () => {
    const { ending } = await once('dev', { ...asked('primary', 'pass'), messages: [person(1, 'dev: pass')] });
    expect(ending).toEqual({ how: 'passed' });
  });

  test('is not repeated when a person writes to its agent while the review waits for people', async () => {
    const time = createTime();
    const dev = await open('dev', time);
    const work = (await turn(dev, time, asked('primary', 'stall'))).text();
    const ordinary = { task: { role: 'member', signals } as const, text: '', messages: [person(1, '@dev hello')] };
    const { text } = await turn(dev, time, ordinary);
    expect(text()).not.toBe('');
    expect(text()).not.toContain(work);
  });

  test('is an ordinary turn for an agent that has no part in the review', async () => {
    const { text } = await once('pm', { task: { role: 'other', signals }, text: '\nTask: pass', messages: [m1] });
    expect(text).toContain('what we build for Anna');
  });
});
