// Second half of the bare pipeline: one call for each message of a wake-up, and one UPDATE for concurrent calls.
import { finishPlain } from '../stack/layout.ts';
import { openBareNats, type BareWake } from './bare-wake.ts';
import { openBenchPostgres } from './bench-postgres.ts';
import { createMicroBatch } from './micro-batch.ts';
import { createProviderCall } from './provider-call.ts';
import { untilTold } from './until-told.ts';

await using database = openBenchPostgres(4);
await using nats = await openBareNats();
await using call = createProviderCall(Number(process.env['PROVIDER_PORT']));
const finish = createMicroBatch<string, undefined>({ rowsMax: 64, flushesMax: 4 }, async (ids) => {
  await finishPlain(database.sql, ids);
  return [];
});

const ending = new AbortController();
const { closed } = nats.consumeWakes({
  maxMessages: 1_000,
  signal: ending.signal,
  onRecreated: () => {},
  onWake({ payload }) {
    const wakes = JSON.parse(Buffer.from(payload).toString()) as BareWake[];
    for (const { id, to, body } of wakes) void call(to, body).then(() => finish(id));
  },
});
await untilTold();
ending.abort();
await closed;
