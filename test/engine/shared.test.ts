import { MemoryLog } from './memory-log.ts';
import { portContract } from './port-contract.ts';
import { sharingContract } from './sharing-contract.ts';
import { openShared } from './shared-store.ts';

portContract('a store that processes share, on a log in memory', async () => {
  const log = new MemoryLog();
  let store = await openShared(log.seenBy());
  return {
    store,
    restart: async () => {
      await store.close();
      store = await openShared(log.seenBy());
      return store;
    },
    dispose: () => store.close(),
  };
});

sharingContract('memory', async () => {
  const log = new MemoryLog();
  return async () => log.seenBy();
});
