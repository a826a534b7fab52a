import { createLogger } from '#core/platform/telemetry/logger.ts';
import { migrateConfig } from './config.ts';
import { migrate } from './migrate.ts';
import { retryWhileAway } from './retry-while-away.ts';

const log = createLogger({ level: 'info', component: 'migrate' });

try {
  const { postgres, roles } = migrateConfig(process.env);
  const run = () =>
    migrate({
      databaseUrl: postgres.url.reveal(),
      passwords: roles,
      ...(postgres.caFile === undefined ? {} : { caFile: postgres.caFile }),
      onWait: (wait) => log.warn({ ...wait }, 'Migration waits for a lock'),
      onApplied: (migration) => log.info({ migration }, 'Migration applied'),
    });
  const { applied, functions, unused, unprepared, isNewerKept } = await retryWhileAway(
    run,
    ({ error, ...retry }) => log.warn({ err: error, ...retry }, 'Postgres is unavailable; trying again'),
  );
  if (isNewerKept)
    log.warn(
      'The functions in force are of a newer release and were left as they are; this release works with them',
    );
  if (unused.length > 0)
    log.warn({ functions: unused }, 'Functions in the database that this release does not use');
  if (unprepared.length > 0) log.warn({ tables: unprepared }, 'Partitions are left to the workers to make');
  const wasUpToDate = applied.length === 0 && functions.length === 0;
  log.info({ applied, functions }, wasUpToDate ? 'Schema was up to date' : 'Schema migrated');
} catch (error) {
  log.error({ err: error }, 'Migration failed');
  process.exitCode = 1;
}
