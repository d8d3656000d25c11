import { randomUUID } from 'node:crypto';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { cardOf } from '../../../src/adapters/delivery/card.ts';
import { createConsoleAdapter, CONSOLE_PERSON } from '../../../src/adapters/console/adapter.ts';
import type { ConsoleAdapter } from '../../../src/adapters/console/adapter.ts';
import type { Platform } from '../../../src/adapters/console/platform.ts';
import type { ChatMessage, PageFrame } from '../../../src/adapters/console/protocol.ts';
import { ChatError } from '../../../src/adapters/port.ts';
import type { ChatAdapter } from '../../../src/adapters/port.ts';
import { PLAIN_WAYS } from '../contract.ts';
import { clockLeft } from '../rig.ts';
import type { Rig, Seen, SeenCard, Stage, Suffered } from '../rig.ts';
import { newFolder, openPage, ownMessages, silent, wallClock } from './fakes.ts';
import type { Page } from './fakes.ts';

const CHANNEL = 'console:demo';
/** An adapter that never starts: it gives the rig its capabilities. */
const idle = createConsoleAdapter({
  dataDir: 'nowhere',
  platform: ownMessages().platform,
  port: 0,
  clock: wallClock,
  log: silent,
});

/** The rig of the console for the contract tests: one person with an open page. */
export const rig: Rig = {
  name: 'the console',
  capabilities: idle.capabilities,
  ways: { ...PLAIN_WAYS, replies: true },
  open: async () => openStage(),
};

type Fault = { readonly kind: 'lose' | 'refuse'; readonly words: string; left: number; hits: number };
type Faults = { readonly armed: Fault[]; twice: boolean };

function openStage(): Stage {
  const dataDir = newFolder();
  const { store, platform } = ownMessages(join(dataDir, 'conch.db'));
  const pageDir = newFolder();
  writeFileSync(join(pageDir, 'index.html'), '<!doctype html><title>Conch</title>');
  const faults: Faults = { armed: [], twice: false };
  let console: ConsoleAdapter | null = null;
  let open: Page | null = null;
  const page = async (): Promise<Page | null> => {
    if (!console?.url) return null;
    open ??= await openPage(console.accessLink());
    return open;
  };
  const messages = async (): Promise<readonly ChatMessage[]> => {
    const shown = await page();
    if (shown === null) return platform.before(CHANNEL, 100);
    shown.send({ type: 'history', channel: CHANNEL });
    return (await shown.frame('history')).messages;
  };
  const running = async (): Promise<Page> => {
    const shown = await page();
    if (shown === null) throw new Error('the console is not running');
    return shown;
  };
  const send = async (frame: Extract<PageFrame, { key: string }>): Promise<string> => {
    const shown = await running();
    shown.send(frame);
    const done = (each: { readonly key: string | null }) => each.key === frame.key;
    return (await Promise.race([shown.frame('accepted', done), shown.frame('refused', done).then(refused)])).id;
  };
  const command = async (line: string, drawnFor?: string): Promise<string> => {
    const shown = await running();
    const key = randomUUID();
    shown.send({ type: 'command', channel: CHANNEL, key, line, ...(drawnFor === undefined ? {} : { drawnFor }) });
    return (await shown.frame('answer', (each) => each.key === key)).text;
  };
  const state = async () => {
    const shown = await running();
    shown.send({ type: 'open', channel: CHANNEL });
    return shown.frame('state');
  };
  return {
    channel: CHANNEL,
    env: {},
    adapter(parts) {
      open = null;
      console = createConsoleAdapter({ dataDir, platform, port: 0, clock: parts.clock, log: parts.log, pageDir });
      return faulty(console, faults);
    },
    idOf: () => CONSOLE_PERSON.id,
    nameOf: () => CONSOLE_PERSON.name,
    async write(_author, text, { replyTo } = {}) {
      const key = randomUUID();
      if ((await page()) === null) return written(platform, text, key);
      const frame = {
        type: 'say',
        channel: CHANNEL,
        key,
        text,
        ...(replyTo === undefined ? {} : { replyTo }),
      } as const;
      const id = await send(frame);
      if (faults.twice) await send(frame);
      return id;
    },
    edit: async (_author, id, text) =>
      void (await send({ type: 'edit', channel: CHANNEL, key: randomUUID(), id, text })),
    remove: async (_author, id) => void (await send({ type: 'delete', channel: CHANNEL, key: randomUUID(), id })),
    read: async () => (await messages()).map(seen),
    receipts: async (id) => (await messages()).find((message) => message.id === id)?.receipts ?? [],
    command: async (_author, line) => command(line),
    card: async (): Promise<SeenCard | null> => {
      const { view, now, agents } = await state();
      if (view === null) return null;
      const nameOf = (agent: string) => agents.find(({ id }) => id === agent)?.name ?? agent;
      const { text, buttons } = cardOf(view, nameOf, (endsAt) => clockLeft(endsAt, now));
      return {
        text,
        buttons: buttons.map(({ label }) => label),
        async press(_author, label) {
          const button = buttons.find((each) => each.label === label);
          return command(button?.line ?? '', button?.drawnFor);
        },
      };
    },
    async drafts() {
      const { drafts, agents } = await state();
      return drafts.map(({ agent, text }) => ({ author: agents.find(({ id }) => id === agent)?.name ?? agent, text }));
    },
    page: () => console?.accessLink() ?? '',
    loseAnswers: (left, words) => arm(faults, { kind: 'lose', words, left, hits: 0 }),
    refuse: (left, words) => arm(faults, { kind: 'refuse', words, left, hits: 0 }),
    duplicate: () => void (faults.twice = true),
    async close() {
      open?.close();
      await store.close();
      for (const folder of [dataDir, pageDir]) rmSync(folder, { recursive: true, force: true });
    },
  };
}

function arm(faults: Faults, fault: Fault): Suffered {
  faults.armed.push(fault);
  return () => fault.hits;
}

/** Wraps the console so that posts fail by the armed faults: refused, or posted with a lost answer. */
function faulty(console: ConsoleAdapter, faults: Faults): ChatAdapter {
  return {
    ...console,
    async post(channel, post) {
      const fault = faults.armed.find(({ left, words }) => left > 0 && post.text.includes(words));
      if (fault === undefined) return console.post(channel, post);
      fault.left -= 1;
      fault.hits += 1;
      const where = { method: 'post', channel };
      if (fault.kind === 'refuse') throw new ChatError('not now', { ...where, fault: 'limited', retryAfterMs: 500 });
      await console.post(channel, post);
      throw new ChatError('no answer', { ...where, fault: 'unclear' });
    },
  };
}

async function written(platform: Platform, text: string, nonce: string): Promise<string> {
  const speaker = { id: CONSOLE_PERSON.id, name: CONSOLE_PERSON.name, avatar: null };
  const said = { channel: CHANNEL, kind: 'person', speaker, text, epoch: null, replyTo: null, nonce } as const;
  return (await platform.add(said)).message.id;
}

function refused({ text }: { readonly text: string }): never {
  throw new Error(text);
}

function seen({ id, speaker, kind, text }: ChatMessage): Seen {
  return { id, author: speaker.name, kind: kind === 'system' ? 'conch' : kind, text };
}
