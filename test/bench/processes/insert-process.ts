// The floor of storage behind HTTP: one table, and no other work. INSERT determines whether concurrent requests are written by
// one statement (`batch`) or each by its own (`each`).
import { insertPlain, type PlainMessage } from '../stack/layout.ts';
import { createMicroBatch } from './micro-batch.ts';
import { openBenchPostgres } from './bench-postgres.ts';
import { servePlainApi } from './plain-api.ts';

const isBatched = process.env['INSERT'] === 'batch';
await using database = openBenchPostgres(isBatched ? 4 : 10);
const { sql } = database;
const one = async (row: PlainMessage): Promise<string> => (await insertPlain(sql, [row]))[0] as string;
const insert = isBatched
  ? createMicroBatch<PlainMessage, string>({ rowsMax: 64, flushesMax: 4 }, (rows) => insertPlain(sql, rows))
  : one;
await servePlainApi(insert);
