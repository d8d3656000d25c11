import { writeSync } from 'node:fs';
import type { DiskSync } from '../../src/engine/sqlite/commits.ts';
import { openFloorStore } from '../../src/turns/floor-store.ts';
import { options, seat, turn, write } from '../engine/sqlite/fixture.ts';

/** A store's life for the recorder. Prints each answer of the store as a line. Is killed at its end. */
const [path = '', rounds = '', how = ''] = process.argv.slice(2);
const CHANNELS = ['test:one', 'test:two', 'test:three'];

/** The planted bug: the store answers before its data is on the disk. */
const HASTY_DISK: DiskSync = { sync: () => null, close: () => undefined };

const { disk: _quick, ...plain } = options(path);
const store = openFloorStore(how === 'hasty' ? { ...plain, disk: HASTY_DISK } : plain);
const told = (line: string): void => void writeSync(1, `told ${line}\n`);
let messages = 0;

async function round(channel: string, number: number): Promise<void> {
  const id = `m${(messages += 1)}`;
  await write(store, id, `round ${number} of ${channel}`, channel);
  told(`message ${id}`);
  for (let turns = 0; turns < 3 && store.floors.state(channel)?.turn !== null; turns += 1) {
    await turn(store, `an answer to ${id}`, channel);
    told(`line ${channel} ${store.floors.state(channel)?.lines}`);
  }
  const { rows } = await store.lease(10, plain.clock.now());
  for (const row of rows) await store.settle(row, { state: 'confirmed', platformId: `p-${row.id}` });
}

await store.recover();
for (const channel of CHANNELS) await seat(store, channel);
for (let number = 0; number < Number(rounds); number += 1) {
  if (number % 3 === 0) await Promise.all(CHANNELS.map((channel) => round(channel, number)));
  else for (const channel of CHANNELS) await round(channel, number);
}
process.kill(process.pid, 'SIGKILL');
