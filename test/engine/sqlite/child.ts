import { StoreError } from '../../../src/engine/errors.ts';
import { open, seat, write, written } from './fixture.ts';

const [act = '', path = ''] = process.argv.slice(2);
const die = (): void => process.kill(process.pid, 'SIGKILL') && undefined;

try {
  const store = open(path);
  if (act === 'accept-and-die') {
    await seat(store);
    await write(store, 'm1');
    await store.accept(written('m2'));
    die();
  }
  if (act === 'apply-and-die') {
    await seat(store);
    for (let n = 1; ; n += 1) {
      const accepted = store.accept(written(`m${n}`));
      if (n === 50) die();
      await accepted;
      console.log(`m${n}`);
    }
  }
} catch (error) {
  console.log(error instanceof StoreError ? `${error.code}: ${error.message}` : error);
  process.exitCode = 4;
}
