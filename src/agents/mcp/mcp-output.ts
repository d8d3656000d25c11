import type { CallToolResult, ContentBlock } from '@modelcontextprotocol/client';
import { z } from 'zod';

/** A picture that a tool returned; its type follows from its first bytes. */
export type ToolImage = { readonly type: string; readonly base64: string };

/** What a tool returned. */
export type ToolOutput = { readonly text: string; readonly images: readonly ToolImage[]; readonly isError: boolean };

/** Longest output that a model gets at once, in bytes of UTF-8. */
const LONGEST_OUTPUT = 32 * 1_024;

/** Returns the result of a call as text and at most four pictures. Links are named, never fetched. */
export function outputOf({ content, structuredContent, isError = false }: CallToolResult): ToolOutput {
  const images = content.flatMap((block) => (block.type === 'image' ? (imageOf(block.data) ?? []) : []));
  const kept = images.slice(0, MOST_IMAGES);
  const texts = content.map((block) => textOf(block, kept));
  const hasText = texts.some((text) => text.trim() !== '');
  const structured = structuredContent === undefined ? '' : JSON.stringify(structuredContent, null, 1);
  return { text: hasText ? texts.join('\n') : structured, images: kept, isError };
}

/** The newest outputs that were cut, so that a model can read the rest: at most 16 MiB together, or one larger output. */
export class CutOutputs {
  readonly #texts = new Map<string, Buffer>();
  #count = 0;

  get isEmpty(): boolean {
    return this.#texts.size === 0;
  }

  /**
   * Returns a text for the model. Cuts a long text in the middle and stores it, so that the model can read the rest.
   */
  shorten(text: string): string {
    const bytes = Buffer.from(text);
    if (bytes.length <= LONGEST_OUTPUT) return text;
    this.#count += 1;
    const id = `output-${this.#count}`;
    this.#texts.set(id, bytes);
    this.#forget();
    const head = boundary(bytes, Math.floor(LONGEST_OUTPUT * HEAD));
    const tail = boundary(bytes, bytes.length - Math.floor(LONGEST_OUTPUT * (1 - HEAD)));
    const left = `… ${sizeOf(tail - head)} left out: call ${READ_OUTPUT} with "id": "${id}" and "from": ${head} …`;
    return [textAt(bytes, 0, head), left, textAt(bytes, tail, bytes.length)].join('\n');
  }

  /** Returns a piece of a stored text, with the next piece's position if any; a sentence when there is no piece. */
  read(id: string, from: number): string {
    const bytes = this.#texts.get(id);
    if (bytes === undefined) return `There is no output "${id}" any more.`;
    if (from >= bytes.length) return `"${id}" ends at ${bytes.length}.`;
    const end = boundary(bytes, Math.min(bytes.length, from + LONGEST_OUTPUT));
    const more = end < bytes.length ? `\n… ${sizeOf(bytes.length - end)} more: "from": ${end}` : '';
    return `${textAt(bytes, from, end)}${more}`;
  }

  #forget(): void {
    let total = [...this.#texts.values()].reduce((sum, { length }) => sum + length, 0);
    for (const [id, { length }] of this.#texts) {
      if (total <= MOST_KEPT || this.#texts.size === 1) return;
      this.#texts.delete(id);
      total -= length;
    }
  }
}

/** The tool by which a model reads more of an output that was cut. */
export const READ_OUTPUT = 'read_output';
/** The description and the input of `read_output`. `from`: a position in the output, in bytes. */
export const READ_OUTPUT_TOOL = {
  description: 'Reads on in the output of a tool that was cut.',
  input: z.object({
    id: z.string().max(100).describe('which output'),
    from: z.number().int().min(0).describe('the place in it to go on from'),
  }),
};

const MOST_KEPT = 16 * 1_024 * 1_024;
const HEAD = 0.6;
const MOST_IMAGES = 4;
const LARGEST_IMAGE = 1_500_000;

function textOf(block: ContentBlock, images: readonly ToolImage[]): string {
  switch (block.type) {
    case 'text':
      return block.text;
    case 'image':
      return images.some(({ base64 }) => base64 === block.data)
        ? '(a picture)'
        : `(a picture that is not shown, ${sizeOf(block.data.length * 0.75)}, said to be ${block.mimeType})`;
    case 'audio':
      return `(a sound that is not played, ${sizeOf(block.data.length * 0.75)})`;
    case 'resource_link':
      return `(a link, not followed: ${block.name}, ${block.uri})`;
    case 'resource':
      return 'text' in block.resource
        ? `(${block.resource.uri})\n${block.resource.text}`
        : `(a file that is not shown, ${block.resource.uri}, ${sizeOf(block.resource.blob.length * 0.75)})`;
  }
}

/** Returns a picture with its type; `null` for a type that models do not take, and for more than 1.5 MB. */
function imageOf(base64: string): ToolImage | null {
  if (base64.length * 0.75 > LARGEST_IMAGE) return null;
  const begin = Buffer.from(base64.slice(0, 24), 'base64').toString('latin1');
  const type = IMAGES.find(([first]) => first.test(begin))?.[1];
  return type === undefined ? null : { type, base64 };
}

const IMAGES = [
  // eslint-disable-next-line no-control-regex
  [/^\x89PNG\r\n\x1A\n/, 'image/png'],
  [/^\xFF\xD8\xFF/, 'image/jpeg'],
  [/^GIF8[79]a/, 'image/gif'],
  [/^RIFF[\s\S]{4}WEBP/, 'image/webp'],
] as const;

function textAt(bytes: Buffer, from: number, to: number): string {
  return bytes.toString('utf8', boundary(bytes, from), to);
}

function boundary(bytes: Buffer, at: number): number {
  let begin = at;
  while (begin > 0 && ((bytes[begin] ?? 0) & 0xc0) === 0x80) begin -= 1;
  return begin;
}

function sizeOf(bytes: number): string {
  if (bytes < 1_000) return `${Math.round(bytes)} bytes`;
  return bytes < 1_000_000 ? `${Math.round(bytes / 1_000)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}
