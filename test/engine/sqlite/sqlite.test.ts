import { storeContract } from '../contract.ts';
import { folder, open } from './fixture.ts';

storeContract('SQLite in memory', async () => {
  const store = open();
  return { store, restart: async () => store, dispose: () => store.close() };
});

storeContract('SQLite in a file', async () => {
  const place = folder();
  let store = open(place.file());
  return {
    store,
    restart: async () => {
      await store.close();
      store = open(place.file());
      return store;
    },
    dispose: async () => {
      await store.close();
      place[Symbol.dispose]();
    },
  };
});
