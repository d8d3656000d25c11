import { describe, expect, test } from 'vitest';
import { CutOutputs, outputOf } from '../../../src/agents/mcp/mcp-output.ts';

describe('a tool result', () => {
  test('that is repeated counts once', () => {
    const content = [{ type: 'text' as const, text: 'the same' }];
    expect(outputOf({ content, structuredContent: { the: 'same' } }).text).toBe('the same');
    expect(outputOf({ content: [], structuredContent: { found: 3 } }).text).toBe('{\n "found": 3\n}');
  });

  test('has only images whose first bytes are those of an image, and no large image', () => {
    const png = Buffer.from('\x89PNG\r\n\x1A\n0000', 'latin1').toString('base64');
    const jpeg = Buffer.from('\xFF\xD8\xFF0000', 'latin1').toString('base64');
    const svg = Buffer.from('<svg onload=alert(1)>').toString('base64');
    const image = (data: string) => ({ type: 'image' as const, data, mimeType: 'image/gif' });
    const { images, text } = outputOf({ content: [png, jpeg, svg, png + 'A'.repeat(2_000_000)].map(image) });
    expect(images).toEqual([
      { type: 'image/png', base64: png },
      { type: 'image/jpeg', base64: jpeg },
    ]);
    expect(text.split('\n')).toEqual([
      '(a picture)',
      '(a picture)',
      '(a picture that is not shown, 21 bytes, said to be image/gif)',
      '(a picture that is not shown, 1.5 MB, said to be image/gif)',
    ]);
  });

  test('has at most four images', () => {
    const image = (index: number) => {
      const data = Buffer.from(`GIF89a ${index}`).toString('base64');
      return { type: 'image' as const, data, mimeType: 'image/gif' };
    };
    expect(outputOf({ content: [1, 2, 3, 4, 5].map(image) }).images).toHaveLength(4);
  });

  test('lists its resource links, and fetches none', () => {
    const { text } = outputOf({
      content: [
        { type: 'resource_link', uri: 'http://169.254.169.254/', name: 'keys' },
        { type: 'resource', resource: { uri: 'mem://note', text: 'a note' } },
        { type: 'resource', resource: { uri: 'mem://file', blob: 'AAAA' } },
        { type: 'audio', data: 'AAAAAAAA', mimeType: 'audio/wav' },
      ],
    });
    expect(text.split('\n')).toEqual([
      '(a link, not followed: keys, http://169.254.169.254/)',
      '(mem://note)',
      'a note',
      '(a file that is not shown, mem://file, 3 bytes)',
      '(a sound that is not played, 6 bytes)',
    ]);
  });
});

describe('a long output', () => {
  test('is complete at exactly 32 KiB, and is cut at one byte more', () => {
    const kept = new CutOutputs();
    const whole = 'x'.repeat(32_768);
    expect(kept.shorten(whole)).toBe(whole);
    expect(kept.isEmpty).toBe(true);
    expect(kept.shorten(`${whole}x`)).toContain('call read_output with "id": "output-1"');
  });

  test('keeps three fifths from its beginning and two from its end, and says how much is left out', () => {
    const cut = new CutOutputs().shorten(`BEGIN${'x'.repeat(1_200_000)}END`);
    const [head = '', left = '', tail = ''] = cut.split('\n');
    expect(head.startsWith('BEGIN')).toBe(true);
    expect(tail.endsWith('END')).toBe(true);
    expect(left).toContain('1.2 MB left out');
    expect(Math.round((head.length / (head.length + tail.length)) * 100)).toBe(60);
  });

  test('can be read to its end, with every character complete', () => {
    const kept = new CutOutputs();
    const text = 'äöü€'.repeat(20_000);
    kept.shorten(text);
    let read = '';
    for (let from = 0; ;) {
      const piece = kept.read('output-1', from);
      const [, body = piece, next] = /^(.*)\n… .* more: "from": (\d+)$/s.exec(piece) ?? [];
      read += body;
      if (next === undefined) break;
      from = Number(next);
    }
    expect(read).toBe(text);
  });

  test('is dropped when newer outputs need the space', () => {
    const kept = new CutOutputs();
    for (let n = 0; n < 4; n += 1) kept.shorten(String(n).repeat(6_000_000));
    expect(kept.read('output-1', 0)).toBe('There is no output "output-1" any more.');
    expect(kept.read('output-4', 5_999_999)).toBe('3');
    expect(kept.read('output-4', 6_000_000)).toBe('"output-4" ends at 6000000.');
  });
});
