import { assert as holds, constantFrom, oneof, property, record, string } from 'fast-check';
import { describe, expect, test } from 'vitest';
import { checkForm } from '../../../src/turns/commands/check-form.ts';
import { parseLine } from '../../../src/turns/commands/parse.ts';
import type { FormField } from '../../../src/turns/floor/settings.ts';
import { parseFormWords, formWords } from '../../../src/turns/text/form.ts';

const field = (name: string, more: Partial<FormField> = {}): FormField => ({
  name,
  label: name,
  hint: '',
  kind: 'text',
  required: false,
  options: [],
  ...more,
});
const options = (...values: readonly string[]) => values.map((value) => ({ value, label: value.toUpperCase() }));

const ISSUE = [
  field('title', { required: true, least: 3 }),
  field('kind', { kind: 'one', options: [{ value: 'b', label: 'Bug' }, ...options('f')] }),
  field('labels', { kind: 'some', options: options('ui', 'api'), most: 1 }),
  field('votes', { kind: 'integer', least: 1, most: 5, initial: '2' }),
  field('urgent', { kind: 'boolean' }),
  field('mail', { format: 'email' }),
];

describe('the words that answer a form', () => {
  test.each([
    ['title=Broken link', { title: 'Broken link', votes: 2 }],
    ['title=The answer is x=3, urgent=no', { title: 'The answer is x=3', votes: 2, urgent: false }],
    [
      'title="Broken", kind=bug; labels=API votes=5 urgent=yes mail=ann@example.org',
      { title: 'Broken', kind: 'b', labels: ['api'], votes: 5, urgent: true, mail: 'ann@example.org' },
    ],
    [String.raw`title="two\nlines, votes=4" votes=3`, { title: 'two\nlines, votes=4', votes: 3 }],
    ['title=C:\\"x" kind=', { title: 'C:\\"x', votes: 2 }],
  ])('are accepted: %s', (words, content) => {
    expect(checkForm(words, ISSUE)).toEqual({ ok: true, content });
  });

  test.each([
    ['', { title: 'it is missing' }],
    ['title=ab', { title: expect.stringContaining('Too small') }],
    ['title=abc kind=chore', { kind: expect.stringContaining('Invalid option') }],
    ['title=abc labels=ui,api', { labels: expect.stringContaining('Too big') }],
    ['title=abc votes=6', { votes: expect.stringContaining('Too big') }],
    ['title=abc votes=1.5', { votes: expect.stringContaining('Invalid input') }],
    ['title=abc votes=many', { votes: expect.stringContaining('Invalid input') }],
    ['title=abc urgent=perhaps', { urgent: expect.stringContaining('Invalid input') }],
    ['title=abc mail=ann', { mail: expect.stringContaining('Invalid email') }],
    ['votes=6 mail=ann', { title: 'it is missing', votes: expect.anything(), mail: expect.anything() }],
  ])('are refused with the error of each field: "%s"', (words, fields) => {
    expect(checkForm(words, ISSUE)).toEqual({ ok: false, text: expect.any(String), fields });
  });

  test('need field names, except for a single field, whose value can be the whole text', () => {
    expect(checkForm('Broken link', ISSUE)).toMatchObject({ ok: false, text: expect.stringContaining('name=value') });
    const one = [field('name', { required: true })];
    expect(checkForm('Ann = Lee', one)).toEqual({ ok: true, content: { name: 'Ann = Lee' } });
    expect(checkForm('name=Ann', one)).toEqual({ ok: true, content: { name: 'Ann' } });
  });

  test('can be anything for a form without fields', () => {
    expect(checkForm('done', [])).toEqual({ ok: true, content: {} });
  });

  test('ignore object properties such as "constructor"', () => {
    const odd = [field('__proto__'), field('constructor')];
    expect(checkForm('__proto__=a constructor=b', odd)).toMatchObject({ ok: true });
    expect(checkForm('constructor=b', [field('constructor'), field('toString', { required: true })])).toMatchObject({
      ok: false,
      fields: { toString: 'it is missing' },
    });
  });

  test('made from a filled-in form are parsed to the same values, also in a command line', () => {
    const names = ['title', 'a', 'kind of', 'x=y', 'a.b'];
    const value = oneof(string(), constantFrom('a=b title=c', ' "x" ', 'two\nlines', 'a, a=1', '[1]', '\\', '"'));
    const filled = record(Object.fromEntries(names.map((name) => [name, value])));
    holds(
      property(filled, (values) => {
        const line = parseLine(`/answer 8 ${formWords(values)}`);
        const words = line.ok ? (line.invocation.values.words ?? '') : '';
        const given = names.filter((name) => values[name] !== '');
        const read = parseFormWords(words, names);
        expect(given.map((name) => read?.get(name))).toEqual(given.map((name) => values[name]));
      }),
    );
  });

  test('made from several choices are parsed to the same choices', () => {
    const many = [field('of', { kind: 'some', options: options('a', 'b,c', '[d') }), field('to')];
    const content = { of: ['b,c', '[d'], to: 'x' };
    expect(checkForm(formWords(content), many)).toEqual({ ok: true, content });
    expect(checkForm(formWords({ of: ['a'] }), many)).toEqual({ ok: true, content: { of: ['a'] } });
    expect(checkForm(formWords({ of: [], to: '' }), many)).toEqual({ ok: true, content: {} });
  });
});
