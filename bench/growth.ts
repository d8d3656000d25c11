import { WalSync } from '../src/engine/sqlite/commits.ts';
import { systemClock } from '../src/lib/time.ts';
import { SAID, SEATED, channelsNamed, openFloors } from './floors.ts';

/** Hand-overs per second by the number of messages in the file. A key is `after` and that number. */
export type Growth = Readonly<Record<string, number>>;

const CHANNELS = 100;
const MEASURED = 4_000;

/** Measures the last 4,000 of the first 10,000, 100,000 and 1,000,000 messages. Does not sync the messages between. */
export async function growth(path: string, most: number): Promise<Growth> {
  const disk = new WalSync(path);
  let filling = true;
  const store = openFloors(path, { sync: () => (filling ? null : disk.sync()), close: () => disk.close() });
  const clock = systemClock();
  await store.recover();
  const ids = channelsNamed(CHANNELS);
  const apply = store.floors.apply.bind(store);
  for (const id of ids)
    await Promise.all(
      [...SEATED, { type: 'start', by: 'bench' } as const].map((command) => apply(id, command, clock.now())),
    );
  const handOver = async (id: string): Promise<void> => {
    const { agent = '', epoch = 0 } = store.floors.state(id)?.turn ?? {};
    const at = clock.now();
    await Promise.all([
      apply(id, { type: 'say', agent, epoch, text: SAID, mentions: [] }, at),
      apply(id, { type: 'end', agent, epoch, outcome: 'completed', signalled: true }, at),
    ]);
  };
  const many = async (count: number): Promise<number> => {
    const begun = performance.now();
    for (let done = 0; done < count; done += CHANNELS) await Promise.all(ids.map(handOver));
    return (count * 1_000) / (performance.now() - begun);
  };
  const found: Record<string, number> = {};
  let said = 0;
  for (const size of [10_000, 100_000, 1_000_000].filter((each) => each <= most)) {
    filling = true;
    await many(size - said - MEASURED);
    filling = false;
    found[`after${size}`] = await many(MEASURED);
    said = size;
  }
  await store.close();
  return found;
}
