import type { Fact } from '../../src/turns/floor/fact.ts';
import { splitText } from '../../src/turns/text/split.ts';
import { doneUnseen } from './answers.ts';
import type { Witnesses } from './answers.ts';
import { brief, isTerminal, readFacts, rows, without } from './journal.ts';
import type { Ledger } from './ledger.ts';
import { reportsIn, verifyAnswers, verifyReports, verifyTools } from './tools.ts';

const TEXT_LIMIT = 16_000;

type Message = {
  readonly seq: number;
  readonly channel: string;
  readonly kind: 'person' | 'agent' | 'system';
  readonly speaker_id: string;
  readonly text: string;
  readonly epoch: number | null;
  readonly deleted: number;
  readonly nonce: string;
};
type Received = {
  readonly id: string;
  readonly channel: string;
  readonly text: string;
  readonly fate: string | null;
  readonly deleted: number;
};
type Owed = {
  readonly id: string;
  readonly channel: string;
  readonly state: string;
  readonly platform_id: string | null;
  readonly repeats: number;
  readonly attempts: number;
};

/** The results of a program: database, file of counted calls, ledger of the pages, and witnesses' prompts. */
export type Left = {
  readonly database: string;
  readonly effects: string;
  readonly ledger: Ledger;
  readonly witnesses: Witnesses;
};

/** The stored results of a run. */
type Remains = {
  readonly messages: readonly Message[];
  readonly inbox: ReadonlyMap<string, Received>;
  readonly outbox: readonly Owed[];
  readonly facts: ReadonlyMap<string, readonly Fact[]>;
  readonly ledger: Ledger;
};

/** Compares the ledger of the pages with the database of a program that ended at rest. Adds faults to the ledger. */
export async function verify({ database, effects, ledger, witnesses }: Left): Promise<void> {
  const facts = await readFacts(database, ledger.faults);
  const remains: Remains = {
    messages: rows(database, 'SELECT * FROM conversation ORDER BY seq') as Message[],
    inbox: new Map((rows(database, 'SELECT * FROM inbox') as Received[]).map((row) => [row.id, row])),
    outbox: rows(database, "SELECT * FROM outbox WHERE lane = 'posts' ORDER BY n") as Owed[],
    facts,
    ledger,
  };
  checkSent(remains);
  checkRouted(remains);
  checkPosts(remains);
  checkOutbox(remains);
  checkShown(remains);
  checkModes(remains);
  verifyTools(database, effects, ledger);
  verifyAnswers(facts, ledger);
  verifyReports(reportsIn(database), facts, ledger);
  const asked = ledger.sent.flatMap(({ id, text, change }) =>
    id === null ? [] : [{ id, text: change === null ? null : text }],
  );
  for (const [channel, all] of facts) {
    const { faults, witnessed, mostAtOnce } = doneUnseen(channel, all, { asked, witnesses });
    ledger.faults.doneUnseen.push(...faults);
    ledger.witnessed += witnessed;
    ledger.mostAtOnce = Math.max(ledger.mostAtOnce, mostAtOnce);
  }
}

/**
 * Each accepted message is on the console once and in the inbox once, in its latest wording, with a fate. A message
 * that its author deleted before anybody read it may be missing in the inbox.
 */
function checkSent({ messages, inbox, ledger }: Remains): void {
  const { lost, twice } = ledger.faults;
  const byKey = new Map(messages.map((message) => [message.nonce, message]));
  const people = messages.filter((message) => message.kind === 'person');
  const copies = Map.groupBy(people, (message) => `${message.channel} ${message.text}`);
  for (const { key, channel, text, unique, id, change } of ledger.sent) {
    const what = `"${text}" in ${channel}`;
    const shown = byKey.get(key);
    const received = inbox.get(id ?? '');
    if (id === null) lost.push(`${what} was never acknowledged`);
    else if (shown === undefined || String(shown.seq) !== id) lost.push(`${what} (${id}) is not on the console`);
    else if (received === undefined && shown.deleted === 1) continue;
    else if (received === undefined) lost.push(`${what} (${id}) is not in the inbox`);
    else {
      if (!isTerminal(received.fate)) lost.push(`${what} (${id}) is left as ${received.fate}`);
      if (change !== undefined && shown.deleted !== Number(change === null))
        lost.push(`the change of ${what} (${id}) is not on the console`);
      if (received.deleted !== shown.deleted) lost.push(`the deletion of ${what} (${id}) is not in the inbox`);
      if (shown.deleted === 0 && received.text !== shown.text)
        lost.push(`the edit of ${what} (${id}) is not in the inbox: "${received.text}", shown "${shown.text}"`);
      if (typeof change === 'string' && shown.text !== change)
        lost.push(`the edit of ${what} (${id}) is not on the console`);
    }
    if (unique && (copies.get(`${channel} ${text}`)?.length ?? 0) > 1) twice.push(`${what} is on the console twice`);
  }
  for (const message of people) {
    const isKept = message.deleted === 1 || inbox.has(String(message.seq));
    if (!isKept) lost.push(`message ${message.seq} of ${message.channel} is not in the inbox`);
  }
}

/** Each message is in the conversation at most once. */
function checkRouted({ facts, inbox, ledger }: Remains): void {
  const lined = new Map<string, number>();
  for (const fact of [...facts.values()].flat()) {
    if (fact.type === 'messageRouted' && fact.line !== null) lined.set(fact.id, (lined.get(fact.id) ?? 0) + 1);
  }
  for (const [id, times] of lined)
    if (times > 1) ledger.faults.twice.push(`message ${id} is in the conversation ${times} times`);
  for (const { id, fate } of inbox.values()) {
    if (fate?.includes('"delivered"') === true && !lined.has(id))
      ledger.faults.lost.push(`message ${id} is delivered and in no conversation`);
  }
}

/** The console shows each part of the agents' texts once, in the order of saying and so of epochs. */
function checkPosts({ facts, messages, ledger }: Remains): void {
  const { lost, twice, other } = ledger.faults;
  for (const [channel, all] of facts) {
    const said = all
      .flatMap((fact) => {
        if (fact.type === 'reported') return { agent: fact.agent, epoch: 0, text: fact.text };
        return fact.type === 'said' ? { agent: fact.agent, epoch: fact.epoch, text: fact.text } : [];
      })
      .flatMap(({ agent, epoch, text }) => splitText(text, TEXT_LIMIT).map((part) => `#${epoch} ${agent}: ${part}`));
    const posts = messages.filter((message) => message.channel === channel && message.kind === 'agent');
    const shown = posts.map(({ epoch, speaker_id: speaker, text }) => `#${epoch ?? 0} ${speaker}: ${text}`);
    lost.push(...without(said, shown).map((post) => `in ${channel} this was said and not posted: ${brief(post)}`));
    twice.push(
      ...without(shown, said).map((post) => `in ${channel} this was posted and said less often: ${brief(post)}`),
    );
    const ofTurns = posts.filter(({ epoch }) => (epoch ?? 0) > 0);
    const early = ofTurns.find((post, index) => (post.epoch ?? 0) < (ofTurns[index - 1]?.epoch ?? 0));
    if (early !== undefined)
      other.push(`in ${channel} a post of epoch ${early.epoch} stands after one of a later epoch`);
    if (said.join('\n') !== shown.join('\n'))
      other.push(`in ${channel} posts are not in the order in which they were said`);
  }
}

/** Each outbox entry for the console is confirmed, and the console shows no message without an entry. */
function checkOutbox({ outbox, messages, ledger }: Remains): void {
  const { lost, twice } = ledger.faults;
  const ids = new Map(messages.map((message) => [message.nonce, String(message.seq)]));
  for (const { id, channel, state, platform_id: platformId, repeats } of outbox) {
    if (state !== 'confirmed') lost.push(`post ${id} of ${channel} ended as ${state}`);
    else if (repeats < 2 && ids.get(id) !== platformId) lost.push(`post ${id} of ${channel} is not on the console`);
  }
  ledger.cutShort = outbox.filter(({ attempts }) => attempts > 1).length;
  const owed = new Set(outbox.map(({ id }) => id));
  for (const { kind, nonce, text } of messages) {
    if (kind !== 'person' && !owed.has(nonce)) twice.push(`the console shows what nobody owed it: ${brief(text)}`);
  }
}

/** A message that a page showed is still in the conversation. */
function checkShown({ messages, ledger }: Remains): void {
  const kept = new Set(messages.map((message) => String(message.seq)));
  for (const [id, channel] of ledger.shown)
    if (!kept.has(id)) ledger.faults.lost.push(`message ${id} of ${channel} was shown and is gone`);
}

/** Each confirmed change of a mode is stored. */
function checkModes({ facts, ledger }: Remains): void {
  for (const [channel, told] of ledger.modesSet) {
    const kept = (facts.get(channel) ?? []).filter((fact) => fact.type === 'settingsChanged').length;
    if (kept < told)
      ledger.faults.lost.push(`${told} changes of the mode of ${channel} were confirmed, ${kept} are on record`);
  }
}
