import { request } from 'node:http';
import { describe, expect, test } from 'vitest';
import { openStage } from './stage.ts';

/** Limits of compressed sizes, in bytes. `later`: the highlighter, which loads with the first block of code. */
const LIMITS = { script: 64_400, style: 10_000, later: 25_000 };

describe('the download of the page', () => {
  test('is compressed and small, without the highlighter for code, which loads later', async () => {
    const stage = await openStage();
    const html = await load(stage.url, 'identity');
    const script = /src="([^"]+\.js)"/.exec(html.text)?.[1] ?? '';
    const style = /href="([^"]+\.css)"/.exec(html.text)?.[1] ?? '';
    const main = await load(new URL(script, stage.url).href, 'gzip');
    const css = await load(new URL(style, stage.url).href, 'br');
    const plain = await load(new URL(script, stage.url).href, 'identity');
    const later = await load(
      new URL(`assets/${/highlight-[\w-]+\.js/.exec(plain.text)?.[0] ?? ''}`, stage.url).href,
      'gzip',
    );
    await stage.close();
    expect([main.encoding, css.encoding, plain.encoding, later.encoding]).toEqual(['gzip', 'br', undefined, 'gzip']);
    expect(main.bytes).toBeLessThan(LIMITS.script);
    expect(css.bytes).toBeLessThan(LIMITS.style);
    expect(later.bytes).toBeLessThan(LIMITS.later);
    expect(html.text.match(/<(?:script|link)\b/g)).toHaveLength(3);
  });
});

type Loaded = { readonly encoding: string | undefined; readonly bytes: number; readonly text: string };

function load(url: string, encoding: string): Promise<Loaded> {
  return new Promise((resolve, reject) => {
    const asked = request(url, { headers: { 'accept-encoding': encoding } }, (answer) => {
      const parts: Buffer[] = [];
      answer.on('data', (part: Buffer) => parts.push(part));
      answer.on('end', () => {
        const body = Buffer.concat(parts);
        resolve({ encoding: answer.headers['content-encoding'], bytes: body.length, text: body.toString('utf8') });
      });
    });
    asked.on('error', reject).end();
  });
}
