// Writes rows without HTTP: measures what Postgres takes of one table, 64 rows a statement over 4 connections.
import { answerCommands } from '../measure/helper.ts';
import { insertPlain } from '../stack/layout.ts';
import { messageText } from '../load/request-text.ts';
import { openBenchPostgres } from './bench-postgres.ts';

export type RowsCommand = { readonly databaseUrl: string; readonly forMs: number };

const ROWS = 64;
const CONNECTIONS = 4;

answerCommands<RowsCommand, number>(async ({ databaseUrl, forMs }) => {
  process.env['OWNER_DATABASE_URL'] = databaseUrl;
  await using database = openBenchPostgres(CONNECTIONS);
  const until = performance.now() + forMs;
  let next = 0;
  const run = async (): Promise<void> => {
    while (performance.now() < until) {
      const rows = Array.from({ length: ROWS }, () => messageText(next++));
      await insertPlain(database.sql, rows);
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, run));
  return next;
});
