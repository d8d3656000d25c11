import { isSpecType } from '@modelcontextprotocol/client';
import type { JSONRPCMessage, Transport } from '@modelcontextprotocol/client';
import { z } from 'zod';
import { defined } from '../../lib/defined.ts';

/** Tools that a server listed and that are none, each with why. Forgotten when they are taken. */
type BadTools = { take(): readonly string[] };

/**
 * Keeps from the client what it does not read, and what it would refuse as a whole. Log messages and news about resources, prompts
 * and tasks are dropped: thousands of them at once would fill the memory. Of a list of tools only entries that are tools are left.
 */
export function sieved(transport: Transport): BadTools {
  const bad: string[] = [];
  let listener = transport.onmessage;
  Object.defineProperty(transport, 'onmessage', {
    get: () => listener,
    set: (next: typeof listener) => {
      listener = (message, extra) => {
        if ('method' in message && UNREAD.test(message.method)) return;
        next?.(withoutBadTools(message, bad), extra);
      };
    },
  });
  return { take: () => bad.splice(0) };
}

const UNREAD = /^notifications\/(?:message$|resources\/|prompts\/|tasks)/;

/** How many bad entries of a list are told, and how much of the name of one. */
const MOST_TOLD = 20;
const LONGEST_NAME = 100;

function withoutBadTools(message: JSONRPCMessage, bad: string[]): JSONRPCMessage {
  if (!('result' in message) || !Array.isArray(message.result['tools'])) return message;
  const listed: readonly unknown[] = message.result['tools'];
  const told = bad.length;
  const tools = listed.flatMap((entry): readonly unknown[] => {
    const tool = toolIn(entry);
    if (tool === null && bad.length - told < MOST_TOLD)
      bad.push(`${nameOf(entry)}: its definition is not that of a tool`);
    return tool === null ? [] : [tool];
  });
  return { ...message, result: { ...message.result, tools } };
}

/** The entry if it is a tool in every protocol; without what it says of its output, where that is one in newer ones alone. */
function toolIn(entry: unknown): object | null {
  const read = z
    .looseObject({ inputSchema: ofObject, outputSchema: ofObject.optional().catch(undefined) })
    .safeParse(entry);
  if (!read.success) return null;
  const { outputSchema, ...tool } = read.data;
  const whole = { ...tool, ...defined({ outputSchema }) };
  return isSpecType.Tool(whole) ? whole : null;
}

const ofObject = z.looseObject({
  type: z.literal('object'),
  properties: z.record(z.string(), z.unknown()).optional(),
  required: z.array(z.string()).optional(),
});

function nameOf(tool: unknown): string {
  const name = typeof tool === 'object' && tool !== null && 'name' in tool ? tool.name : null;
  return typeof name === 'string' ? JSON.stringify(name.slice(0, LONGEST_NAME)) : 'a tool without a name';
}
