// pg-boss with the settings that its manual recommends for speed: large batches, several loops, no pause while batches are full.
// With NOTIFY=on it also listens for notifications of new jobs.
import { PgBoss } from 'pg-boss';
import { databaseUrl } from './bench-postgres.ts';
import { createProviderCall } from './provider-call.ts';
import { untilTold } from './until-told.ts';

type Job = { readonly to: string; readonly body: string };

const boss = new PgBoss({
  connectionString: databaseUrl(),
  max: 10,
  migrate: false,
  useListenNotify: process.env['NOTIFY'] === 'on',
});
boss.on('error', (error: Error) => process.stderr.write(`${error.message}\n`));
await boss.start();
await using call = createProviderCall(Number(process.env['PROVIDER_PORT']));
await boss.work<Job>(
  'send',
  { batchSize: 200, localConcurrency: 4, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 },
  async (jobs) => {
    await Promise.all(jobs.map(({ data }) => call(data.to, data.body)));
  },
);
await untilTold();
await boss.stop({ graceful: false });
