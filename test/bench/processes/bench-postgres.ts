import { openPostgres, type Postgres } from '#core/platform/postgres/postgres.ts';
import { secret } from '#core/domain/storage/secret.ts';

/** Opens the contestant's database, for programs that do not read the service's configuration. */
export function openBenchPostgres(poolMax: number): Postgres {
  return openPostgres({
    url: secret(databaseUrl()),
    poolMax,
    statementTimeoutMs: 30_000,
    applicationName: 'bench-contestant',
  });
}

export function databaseUrl(): string {
  const url = process.env['OWNER_DATABASE_URL'];
  if (url === undefined) throw new Error('OWNER_DATABASE_URL is not set');
  return url;
}
