import { describe, expect, test } from 'vitest';
import { visible } from '../../src/lib/visible.ts';

describe('pitfall 4: T53 a text in which something would hide', () => {
  test.each([
    ['a zero-width space', 'rm\u200B', 'rm\\u{200B}'],
    ['a no-break space', 'rm\u00A0-rf', 'rm\\u{A0}-rf'],
    ['other spaces', '\u2003\u3000\u2028', '\\u{2003}\\u{3000}\\u{2028}'],
    ['letters without a shape', '\u3164\u115F\uFFA0', '\\u{3164}\\u{115F}\\u{FFA0}'],
    ['a braille cell without dots', '\u2800', '\\u{2800}'],
    ['variation selectors', '⚠\uFE0F\u{E0100}', '⚠\\u{FE0F}\\u{E0100}'],
    ['marks that turn text round', '\u202Egnp\u202C\u2066', '\\u{202E}gnp\\u{202C}\\u{2066}'],
    ['tags', '\u{E0072}\u{E006D}', '\\u{E0072}\\u{E006D}'],
    ['control characters', 'a\rb\u001B[2Kc\u0007', 'a\\u{D}b\\u{1B}[2Kc\\u{7}'],
    ['a soft hyphen and a joiner', 'a\u00ADb\u2060', 'a\\u{AD}b\\u{2060}'],
    ['half a character', 'a\uD83D', 'a\\u{D83D}'],
    ['what no script has', '\uE000\u{378}', '\\u{E000}\\u{378}'],
    ['marks on nothing', '\u0301 -\u20DD', '\\u{301} -\\u{20DD}'],
    ['more marks than a letter carries', `a${'\u0335'.repeat(6)}`, `a${'\u0335'.repeat(4)}\\u{335}\\u{335}`],
  ])('shows %s as code points', (_what, text, shown) => {
    expect(visible(text)).toBe(shown);
    expect(visible(shown)).toBe(shown);
  });

  test.each([
    'rm -rf build\n\tgit push # ~!@$%^&*()_+{}|:"<>?',
    'Größe, naïve, cafe\u0301, Œuvre',
    'Привет, κόσμε, שָׁלוֹם, مَرْحَبًا',
    'नमस्ते, สวัสดี, 你好, こんにちは, 안녕하세요',
    '→ ✓ € ½ “quoted” 😀 `code` ``more``',
  ])('stays as it is: %j', (text) => {
    expect(visible(text)).toBe(text);
  });

  test('cannot end the block of code that it is shown in', () => {
    expect(visible('```\n@everyone')).toBe('``\\u{60}\n@everyone');
    expect(visible('`'.repeat(7))).not.toContain('```');
  });
});
