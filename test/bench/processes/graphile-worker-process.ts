// graphile-worker with the settings that its manual recommends for speed: jobs fetched 500 at a time and completed in batches. It
// deletes completed jobs, so the message's status is written separately, also in batches; with STATUS=none it is not.
import { Logger, run } from 'graphile-worker';
import { finishPlain } from '../stack/layout.ts';
import { databaseUrl, openBenchPostgres } from './bench-postgres.ts';
import { createMicroBatch } from './micro-batch.ts';
import { createProviderCall, PROVIDER_CONNECTIONS } from './provider-call.ts';
import { untilTold } from './until-told.ts';

type Job = { readonly id: string; readonly to: string; readonly body: string };

await using database = openBenchPostgres(4);
await using call = createProviderCall(Number(process.env['PROVIDER_PORT']));
const storesStatus = process.env['STATUS'] !== 'none';
const finish = createMicroBatch<string, undefined>({ rowsMax: 500, flushesMax: 2 }, async (ids) => {
  await finishPlain(database.sql, ids);
  return [];
});

const runner = await run({
  preset: {
    worker: {
      connectionString: databaseUrl(),
      concurrentJobs: PROVIDER_CONNECTIONS,
      maxPoolSize: 10,
      pollInterval: 100,
      localQueue: { size: 500 },
      completeJobBatchDelay: 0,
      logger: new Logger(() => () => {}),
    },
  },
  noHandleSignals: true,
  taskList: {
    async send(payload: unknown) {
      const { id, to, body } = payload as Job;
      await call(to, body);
      if (storesStatus) await finish(id);
    },
  },
});
await untilTold();
await runner.stop();
