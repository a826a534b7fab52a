// First half of the bare pipeline: fastify and zod, one INSERT for concurrent requests, and one wake-up for them.
import type { BareWake } from './bare-wake.ts';
import { openBareNats } from './bare-wake.ts';
import { insertPlain, type PlainMessage } from '../stack/layout.ts';
import { openBenchPostgres } from './bench-postgres.ts';
import { createMicroBatch } from './micro-batch.ts';
import { servePlainApi } from './plain-api.ts';

await using database = openBenchPostgres(4);
await using nats = await openBareNats();
const insert = createMicroBatch<PlainMessage, string>({ rowsMax: 64, flushesMax: 4 }, async (rows) => {
  const ids = await insertPlain(database.sql, rows);
  const wakes = rows.map(({ to, body }, i): BareWake => ({ id: ids[i] as string, to, body }));
  void nats.publishWakes([{ kind: 'normal', id: ids[0] as string, payload: JSON.stringify(wakes) }]);
  return ids;
});
await servePlainApi(insert);
