// pg-boss behind fastify: the job is the message, and its state the message's. ADD determines whether concurrent jobs are added
// by one statement (`batch`) or each by its own.
import { randomUUID } from 'node:crypto';
import { PgBoss } from 'pg-boss';
import { databaseUrl } from './bench-postgres.ts';
import { createMicroBatch } from './micro-batch.ts';
import { servePlainApi, type PlainRequest } from './plain-api.ts';

const boss = new PgBoss({ connectionString: databaseUrl(), max: 10, migrate: false, supervise: false });
boss.on('error', (error: Error) => process.stderr.write(`${error.message}\n`));
await boss.start();
const addOne = async (request: PlainRequest): Promise<string> => {
  const id = await boss.send('send', request);
  if (id === null) throw new Error('pg-boss did not take the job');
  return id;
};
const addBatch = createMicroBatch<PlainRequest, string>({ rowsMax: 64, flushesMax: 4 }, async (requests) => {
  const jobs = requests.map((data) => ({ id: randomUUID(), data }));
  await boss.insert('send', jobs);
  return jobs.map(({ id }) => id);
});
await servePlainApi(process.env['ADD'] === 'batch' ? addBatch : addOne);
await boss.stop();
