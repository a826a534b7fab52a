import { openPostgres, type Postgres } from '#core/platform/postgres/postgres.ts';
import { secret } from '#core/domain/secret.ts';
import { deliveryStore, type DeliveryStore } from '#core/store/deliveries.ts';
import { testDatabase } from './servers.ts';

/** A database of its own with the pools that the roles use. */
export async function setupStores(): Promise<
  AsyncDisposable & {
    admin: Postgres['sql'];
    api: Postgres['sql'];
    worker: Postgres['sql'];
    store: DeliveryStore;
    urls: { api: string; worker: string; admin: string };
  }
> {
  const stack = new AsyncDisposableStack();
  const database = stack.use(await testDatabase());
  const open = (url: string) =>
    stack.use(
      openPostgres({ url: secret(url), poolMax: 6, statementTimeoutMs: 10_000, applicationName: 'test' }),
    ).sql;
  const worker = open(database.workerUrl);
  return {
    admin: open(database.superuserUrl),
    api: open(database.apiUrl),
    worker,
    store: deliveryStore(worker, 10_000),
    urls: { api: database.apiUrl, worker: database.workerUrl, admin: database.superuserUrl },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}
