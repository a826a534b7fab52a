// graphile-worker behind fastify: a message and its job in one statement for each request.
import { insertPlainWithJob } from '../stack/layout.ts';
import { openBenchPostgres } from './bench-postgres.ts';
import { servePlainApi } from './plain-api.ts';

await using database = openBenchPostgres(10);
await servePlainApi((request) => insertPlainWithJob(database.sql, request));
