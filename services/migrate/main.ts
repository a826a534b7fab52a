import { createLogger } from '#core/platform/telemetry/logger.ts';
import { migrateConfig } from './config.ts';
import { migrate } from './migrate.ts';

const log = createLogger({ level: 'info', component: 'migrate' });

try {
  const { postgres, roles } = migrateConfig(process.env);
  const { applied } = await migrate({
    databaseUrl: postgres.url.reveal(),
    passwords: roles,
    ...(postgres.caFile === undefined ? {} : { caFile: postgres.caFile }),
    onWait: (wait) => log.warn({ ...wait }, 'Migration waits for a lock'),
    onApplied: (migration) => log.info({ migration }, 'Migration applied'),
  });
  log.info({ applied }, applied.length === 0 ? 'Schema was up to date' : 'Schema migrated');
} catch (error) {
  log.error({ err: error }, 'Migration failed');
  process.exitCode = 1;
}
