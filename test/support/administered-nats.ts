import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ServicePasswords } from '../../deploy/quickstart/state.ts';
import { startNats, type NatsOptions, type NatsServer } from '../../deploy/servers/nats.ts';
import { projectRoot } from './command.ts';

/** Starts a NATS with the shipped permissions and one more user who has all rights. */
export async function startAdministeredNats(
  folder: string,
  passwords: ServicePasswords,
  admin: { readonly user: string; readonly password: string },
  options: Pick<NatsOptions, 'host' | 'config'> = {},
): Promise<NatsServer> {
  const shipped = await readFile(join(projectRoot, 'deploy/nats/permissions.conf'), 'utf8');
  const include = join(folder, 'permissions.conf');
  await writeFile(
    include,
    shipped.replace('users: [', `users: [ { user: ${admin.user}, password: $ADMIN_PASSWORD }`),
  );
  return startNats({
    ...options,
    include,
    env: {
      ADMIN_PASSWORD: admin.password,
      DESPATCH_NATS_API_PASSWORD: passwords.api,
      DESPATCH_NATS_WORKER_PASSWORD: passwords.worker,
      DESPATCH_NATS_CONTROLLER_PASSWORD: passwords.controller,
    },
  });
}
