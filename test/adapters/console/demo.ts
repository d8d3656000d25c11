/**
 * Runs the console with a scripted floor, to look at the page: `node test/adapters/console/demo.ts [port] [folder]`.
 * Agents take turns, wait and time out. Messages are echoed. "/flood" fills the channel, "/rest" ends the exchange.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { createConsoleAdapter } from '../../../src/adapters/console/adapter.ts';
import type { Fact, Outcome } from '../../../src/turns/floor/fact.ts';
import type { TurnRecord } from '../../../src/turns/view.ts';
import { CHANNEL, fakeIntake, fakeQueries, newFolder, ownMessages, restingView, silent, wallClock } from './fakes.ts';

const AGENTS = ['pm', 'dev', 'qa'];
const LINES: Readonly<Record<string, readonly string[]>> = {
  pm: [
    'Here is what we build: a **status page** that people can read on a phone.\n\n1. One line per service\n2. The last incident\n3. Nothing else\n\n@dev can you sketch the data first?',
    'Good. Keep the first version small; we can always add to it. Is `degraded` a state of its own?',
  ],
  dev: [
    'Two tables are enough. The page reads one of them:\n\n```sql\nCREATE TABLE service (\n  id TEXT PRIMARY KEY,\n  state TEXT NOT NULL\n) STRICT;\n```\n\nIncidents only ever grow, so they are append-only.',
    'Pushed. It renders in 40 ms with 200 services. @qa please try it with a slow network.',
  ],
  qa: [
    'Tried it on a slow network: the page is blank for 6 seconds because the list waits for the incidents. Load the list first.',
    'Works now. One more: a service name of 80 characters runs over the edge.',
  ],
};

const intake = fakeIntake();
const queries = fakeQueries();
const adapter = createConsoleAdapter({
  dataDir: process.argv[3] ?? newFolder(),
  platform: ownMessages().platform,
  port: Number(process.argv[2] ?? 7420),
  clock: wallClock,
  log: silent,
});
const turns: TurnRecord[] = [];
queries.turnsOf.set(CHANNEL, turns);
let epoch = 0;
let seq = 0;
let skipped = false;
let held: string[] = [];
let mode = restingView().mode;

function note(fact: Fact): void {
  seq += 1;
  queries.entries.push({ key: CHANNEL, seq, at: Date.now(), fact, hash: '' });
}

function show(change: Partial<ReturnType<typeof restingView>>): void {
  queries.views.set(CHANNEL, { ...restingView(), mode, held, epoch, ...change });
  adapter.card?.(CHANNEL, restingView());
}

function holding(agent: string, status: 'ACTIVE' | 'WAITING', ms: number): void {
  const place = AGENTS.indexOf(agent);
  const startedAt = turns.at(-1)?.startedAt ?? Date.now();
  const deadlineAt = Date.now() + ms;
  const waitUntil = status === 'WAITING' ? deadlineAt : null;
  show({
    condition: 'open',
    holder: {
      agent,
      epoch,
      status,
      startedAt,
      deadlineAt,
      waitingFor: waitUntil === null ? null : 'answer',
      working: true,
      approval: null,
    },
    seats: restingView().seats.map((seat) => (seat.agent === agent ? { ...seat, status, waitUntil } : seat)),
    next: [...AGENTS.slice(place + 1), ...AGENTS.slice(0, place)],
    turns: { used: turns.length % 12, allowed: 12 },
  });
}

function keep(id: string): void {
  held = [...held, id];
  queries.views.set(CHANNEL, { ...(queries.view(CHANNEL) ?? restingView()), held });
  adapter.card?.(CHANNEL, restingView());
}

async function turn(agent: string, round: number): Promise<void> {
  epoch += 1;
  skipped = false;
  turns.push({ epoch, agent, startedAt: Date.now(), endedAt: null, outcome: null, said: 0, waits: [] });
  note({ type: 'seatMoved', agent, from: 'QUEUED', to: 'ACTIVE', trigger: 'TURN_GRANTED' });
  note({ type: 'turnGranted', agent, epoch, afterLine: 0, uptoLine: 0, messages: [], keepsPlace: false });
  holding(agent, 'ACTIVE', 60_000);
  const outcome = await speak(agent, round);
  const record = turns.pop();
  if (record === undefined) return;
  turns.push({ ...record, endedAt: Date.now(), outcome, said: outcome === 'completed' ? 1 : 0 });
  note({ type: 'turnEnded', agent, epoch, outcome, signalled: true, said: true, answered: [], returned: [] });
  held = [];
}

async function speak(agent: string, round: number): Promise<Outcome> {
  const speaker = { id: agent, name: agent, avatar: null };
  await sleep(1200);
  if (round % 4 === 3 && agent === 'qa') return 'passed';
  const text = LINES[agent]?.[round % 2] ?? '';
  for (let end = 0; end < text.length; end += 6) {
    if (skipped) return 'revoked';
    adapter.draft?.(CHANNEL, speaker, epoch, text.slice(0, end));
    await sleep(45);
  }
  adapter.draft?.(CHANNEL, speaker, epoch, null);
  await adapter.post(CHANNEL, { outboxId: crypto.randomUUID(), speaker, text, afterId: null, epoch });
  note({ type: 'said', agent, epoch, line: seq, text, mentions: [] });
  if (agent === 'pm' && round % 2 === 1) {
    holding(agent, 'WAITING', 600_000);
    await sleep(5000);
  }
  await sleep(800);
  return 'completed';
}

const run = { on: false };
async function exchange(): Promise<void> {
  if (run.on) return;
  run.on = true;
  for (let round = 0; run.on && round < 8; round += 1) {
    for (const agent of AGENTS) if (run.on) await turn(agent, round);
  }
  run.on = false;
  show({});
}

async function flood(): Promise<void> {
  for (let count = 0; count < 4000; count += 1) {
    const speaker = { id: AGENTS[count % 3] ?? 'pm', name: AGENTS[count % 3] ?? 'pm', avatar: null };
    const text = `Message ${count} of a flood: nothing to see here, only a line of ordinary length.`;
    void adapter.post(CHANNEL, { outboxId: crypto.randomUUID(), speaker, text, afterId: null, epoch });
    if (count % 2 === 0) await sleep(10);
  }
}

await adapter.start(
  {
    ...intake,
    async message(message) {
      const receipt = mode === 'queue' ? 'held' : 'injected';
      if (run.on) await adapter.receipt?.(CHANNEL, message.id, receipt);
      if (run.on && mode === 'queue') keep(message.id);
      if (!run.on) void exchange();
      setTimeout(() => void adapter.receipt?.(CHANNEL, message.id, 'done'), 4000);
    },
    async command(_channel, _by, line) {
      if (line === '/flood') void flood();
      if (line === '/stop' || line === '/rest') {
        run.on = false;
        skipped = true;
        const text = '⏹ Stopped dev. 1 message kept.';
        await adapter.post(CHANNEL, { outboxId: crypto.randomUUID(), speaker: null, text, afterId: null, epoch: null });
      }
      if (line.startsWith('/floor skip')) skipped = true;
      const wanted = /^\/floor mode (\w+)/.exec(line)?.[1];
      if (wanted === 'queue' || wanted === 'inject' || wanted === 'interrupt' || wanted === 'parallel') mode = wanted;
      return line.includes('wrong')
        ? { ok: false, text: 'That turn is over.' }
        : { ok: true, text: `${line} is done.` };
    },
  },
  queries,
);
adapter.setReady();
process.stdout.write(`${adapter.url}\n`);
process.on('SIGTERM', () => void adapter.stop().then(() => process.exit(0)));
