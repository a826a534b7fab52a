import { defineEnvGroup, parseEnvironment, type ConfigOf } from '#core/platform/config/config.ts';
import { optional, secretText } from '#core/platform/config/variables.ts';
import { databaseEnv } from '#core/platform/config/environment.ts';

const rolesEnv = defineEnvGroup({
  title: 'Roles',
  shape: {
    API_DATABASE_PASSWORD: optional(secretText('Password to set for `despatch_api`. Absent: left as it is.')),
    WORKER_DATABASE_PASSWORD: optional(
      secretText('Password to set for `despatch_worker`. Absent: left as it is.'),
    ),
    CONTROLLER_DATABASE_PASSWORD: optional(
      secretText('Password to set for `despatch_controller`. Absent: left as it is.'),
    ),
  },
  build: (e) => ({
    ...(e.API_DATABASE_PASSWORD === undefined ? {} : { api: e.API_DATABASE_PASSWORD.reveal() }),
    ...(e.WORKER_DATABASE_PASSWORD === undefined ? {} : { worker: e.WORKER_DATABASE_PASSWORD.reveal() }),
    ...(e.CONTROLLER_DATABASE_PASSWORD === undefined
      ? {}
      : { controller: e.CONTROLLER_DATABASE_PASSWORD.reveal() }),
  }),
});

export const migrateEnvironment = { postgres: databaseEnv, roles: rolesEnv };

export type MigrateConfig = ConfigOf<typeof migrateEnvironment>;

/** Parses the environment. @throws ConfigurationError naming all faults at once. */
export function migrateConfig(env: NodeJS.ProcessEnv): MigrateConfig {
  return parseEnvironment(migrateEnvironment, env);
}
