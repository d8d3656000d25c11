import { describe, expect, test } from 'vitest';
import { mayOperate } from '../../../src/turns/commands/context.ts';

const OPERATORS = { users: ['7', 'dev'], roles: ['admins'] };
const person = (id: string, roles: readonly string[] = []) => ({ id, name: 'Ann', roles });

describe('the operator role', () => {
  test('belongs to a listed id', () => {
    expect(mayOperate(person('7'), OPERATORS, [])).toBe(true);
  });

  test('belongs to a person with a listed role', () => {
    expect(mayOperate(person('8', ['staff', 'admins']), OPERATORS, [])).toBe(true);
  });

  test('belongs to nobody else', () => {
    expect(mayOperate(person('8', ['staff']), OPERATORS, [])).toBe(false);
    expect(mayOperate(person('7'), { users: [], roles: [] }, [])).toBe(false);
  });

  test('is not given by a name, a part of an id, or other letter case', () => {
    expect(mayOperate({ id: '8', name: '7', roles: [] }, OPERATORS, [])).toBe(false);
    expect(mayOperate(person('77'), OPERATORS, [])).toBe(false);
    expect(mayOperate(person('8', ['Admins']), OPERATORS, [])).toBe(false);
  });

  test('is not given by an empty id or an empty role', () => {
    const careless = { users: [''], roles: [''] };
    expect(mayOperate(person(''), careless, [])).toBe(false);
    expect(mayOperate(person('8', ['']), careless, [])).toBe(false);
  });

  test('never belongs to a bot, even a listed one', () => {
    expect(mayOperate({ ...person('7', ['admins']), bot: true }, OPERATORS, [])).toBe(false);
  });

  test('never belongs to an agent, even a listed one', () => {
    expect(mayOperate(person('dev', ['admins']), OPERATORS, ['pm', 'dev'])).toBe(false);
  });
});
