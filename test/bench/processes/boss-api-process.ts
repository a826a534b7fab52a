// pg-boss behind fastify: the job is the message, and its state the message's.
import { PgBoss } from 'pg-boss';
import { databaseUrl } from './bench-postgres.ts';
import { servePlainApi } from './plain-api.ts';

const boss = new PgBoss({ connectionString: databaseUrl(), max: 10, migrate: false, supervise: false });
boss.on('error', (error: Error) => process.stderr.write(`${error.message}\n`));
await boss.start();
await servePlainApi(async (request) => {
  const id = await boss.send('send', request);
  if (id === null) throw new Error('pg-boss did not take the job');
  return id;
});
await boss.stop();
