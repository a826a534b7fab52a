// graphile-worker behind fastify: a message and its job are written together. ADD determines whether concurrent ones are written
// by one transaction (`batch`) or each by its own statement.
import { insertPlain, insertPlainWithJob } from '../stack/layout.ts';
import { openBenchPostgres } from './bench-postgres.ts';
import { createMicroBatch } from './micro-batch.ts';
import { servePlainApi, type PlainRequest } from './plain-api.ts';

const isBatched = process.env['ADD'] === 'batch';
await using database = openBenchPostgres(isBatched ? 4 : 10);
const { sql } = database;
const addBatch = createMicroBatch<PlainRequest, string>({ rowsMax: 64, flushesMax: 4 }, (requests) =>
  sql.begin(async (tx) => {
    const ids = await insertPlain(tx, requests);
    const payloads = requests.map(({ to, body }, i) => JSON.stringify({ id: ids[i], to, body }));
    await tx`
      select count(*) from graphile_worker.add_jobs(array(
        select row('send', p::json, null, now(), null, null, null, null)::graphile_worker.job_spec
        from unnest(${payloads}::text[]) p))`;
    return ids;
  }),
);
await servePlainApi(isBatched ? addBatch : (request) => insertPlainWithJob(sql, request));
