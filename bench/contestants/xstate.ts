import { assign, createActor, setup } from 'xstate';
import { AGENTS, SAID } from '../floors.ts';
import { openGroupCommit } from '../group-commit.ts';
import { inLanes } from '../steady.ts';
import type { Measured, Span } from '../steady.ts';

type Seat = { readonly agent: string; readonly status: 'QUEUED' | 'ACTIVE'; readonly priority: number };
type Floor = {
  readonly seats: readonly Seat[];
  readonly queue: readonly string[];
  readonly holder: string;
  readonly epoch: number;
  readonly said: string | null;
};

const [first = '', ...others] = AGENTS;

/** A floor with the same three agents: the holder says a text and hands over. It has far fewer rules than Conch's. */
const floor = setup({
  types: {
    context: {} as Floor,
    events: {} as { type: 'say'; text: string; epoch: number } | { type: 'end'; epoch: number },
  },
  guards: { isHolder: ({ context, event }) => event.epoch === context.epoch },
  actions: {
    say: assign(({ event }) => (event.type === 'say' ? { said: event.text } : {})),
    handOver: assign(({ context }) => {
      const [next = '', ...rest] = context.queue;
      const status = (agent: string): Seat['status'] => (agent === next ? 'ACTIVE' : 'QUEUED');
      return {
        seats: context.seats.map((seat) => ({ ...seat, status: status(seat.agent) })),
        queue: [...rest, context.holder],
        holder: next,
        epoch: context.epoch + 1,
        said: null,
      };
    }),
  },
}).createMachine({
  initial: 'speaking',
  context: {
    seats: AGENTS.map((agent) => ({ agent, status: agent === first ? 'ACTIVE' : 'QUEUED', priority: 10 })),
    queue: others,
    holder: first,
    epoch: 1,
    said: null,
  },
  states: {
    speaking: { on: { say: { guard: 'isHolder', actions: 'say' }, end: { guard: 'isHolder', actions: 'handOver' } } },
  },
});

/** XState 5: one actor for each channel. Stores its snapshot after each transition, in a separate commit. */
export function handOvers(path: string, channels: number, span: Span): Promise<Measured> {
  return stored(path, channels, { span, together: false });
}

/** XState 5 with the group commit that measures the limit. XState itself has no group commit. */
export function handOversInGroups(path: string, channels: number, span: Span): Promise<Measured> {
  return stored(path, channels, { span, together: true });
}

type Way = { readonly span: Span; readonly together: boolean };

async function stored(path: string, channels: number, { span, together }: Way): Promise<Measured> {
  const store = openGroupCommit(path, { keeps: 'latest', together });
  const actors = Array.from({ length: channels }, () => createActor(floor).start());
  const found = await inLanes(channels, span, async (lane) => {
    const actor = actors[lane];
    if (actor === undefined) throw new Error('impossible: a lane without an actor');
    const { epoch } = actor.getSnapshot().context;
    actor.send({ type: 'say', text: SAID, epoch });
    const said = store.write(lane, JSON.stringify(actor.getPersistedSnapshot()));
    actor.send({ type: 'end', epoch });
    await Promise.all([said, store.write(lane, JSON.stringify(actor.getPersistedSnapshot()))]);
  });
  store.close();
  return found;
}
