import { ADDRESS_KEYS } from './seed.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import { gaugeStore, type GaugeStore } from '#core/store/upkeep/gauges.ts';
import { workerStore, type WorkerStore } from '#core/store/worker-store.ts';
import { testDatabase, type TestDatabase } from './servers.ts';

const CONNECTIONS_MAX = 6;

/** Creates a database with the pools of the services' roles. */
export async function setupStores(): Promise<
  AsyncDisposable & {
    admin: Sql;
    api: Sql;
    worker: Sql;
    store: WorkerStore;
    gauges: GaugeStore;
    urls: { api: string; worker: string; admin: string };
    open: TestDatabase['open'];
  }
> {
  const database = await testDatabase();
  const worker = database.open('worker', CONNECTIONS_MAX);
  return {
    admin: database.open('admin', CONNECTIONS_MAX),
    api: database.open('api', CONNECTIONS_MAX),
    worker,
    store: workerStore(worker, 10_000, ADDRESS_KEYS),
    gauges: gaugeStore(worker, (work) => work),
    urls: { api: database.apiUrl, worker: database.workerUrl, admin: database.superuserUrl },
    open: database.open,
    [Symbol.asyncDispose]: () => database[Symbol.asyncDispose](),
  };
}
