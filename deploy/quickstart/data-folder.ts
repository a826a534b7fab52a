import { createHash } from 'node:crypto';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { migrationFiles, migrationSql } from '#core/store/migration-files.ts';
import { serverFolder } from '../servers/server-folder.ts';
import { unprivilegedUser } from '../servers/unprivileged-user.ts';
import { newState, readState, staleness, type State } from './state.ts';

export type DataFolderOptions = {
  readonly folder: string;
  readonly fresh: boolean;
  /** The issuer name for a new state. */
  readonly issuer: string;
  readonly note: (line: string) => void;
};

/** Returns the state of the data folder: the stored one if it is still usable, or else a new one in an emptied folder. */
export async function openDataFolder({ folder, fresh, issuer, note }: DataFolderOptions): Promise<State> {
  const migrations = migrationHashes();
  const kept = await readState(folder);
  const stale = staleness(kept, migrations);
  if (kept !== undefined && stale === undefined && !fresh) return { ...kept, migrations };
  if (kept !== undefined) note(`Starting afresh: ${fresh ? '--fresh' : stale}`);
  await removeData(folder);
  await mkdir(folder, { recursive: true });
  return newState(migrations, issuer);
}

/** Postgres may keep its data in another folder that its own user can reach. */
async function removeData(folder: string): Promise<void> {
  const postgres = await serverFolder('postgres', join(folder, 'postgres'), await unprivilegedUser());
  await rm(postgres.path, { recursive: true, force: true });
  await rm(folder, { recursive: true, force: true });
}

function migrationHashes(): State['migrations'] {
  return Object.fromEntries(
    migrationFiles().map(({ name }) => [name, createHash('sha256').update(migrationSql(name)).digest('hex')]),
  );
}
