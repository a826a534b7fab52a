import { createHash } from 'node:crypto';
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { migrationFiles, migrationSql } from '#core/store/schema/migration-files.ts';
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

/** A file in every folder that a quick start has made its own: no other folder is emptied. */
const MARKER = 'despatch-quickstart';
const MARKER_TEXT = 'Data of `npm run quickstart`, which deletes this folder when it starts afresh.\n';

/**
 * Returns the state of the data folder: the stored one if it is still usable, or else a new one in an emptied folder.
 * @throws when the folder has files that are not of a quick start; none of them is changed.
 */
export async function openDataFolder({ folder, fresh, issuer, note }: DataFolderOptions): Promise<State> {
  const migrations = migrationHashes();
  const kept = await readState(folder);
  await claimFolder(folder, kept?.databasePasswords !== undefined);
  const stale = staleness(kept, migrations);
  if (kept !== undefined && stale === undefined && !fresh) return { ...kept, migrations };
  if (kept !== undefined) note(`Starting afresh: ${fresh ? '--fresh' : stale}`);
  await emptyFolder(folder);
  return newState(migrations, issuer);
}

/**
 * Marks the folder before anything else is in it, so that a first start that is interrupted is recognised.
 * @param hasState whether the folder has the state of a quick start that did not mark it.
 */
async function claimFolder(folder: string, hasState: boolean): Promise<void> {
  await mkdir(folder, { recursive: true });
  const names = await readdir(folder);
  if (names.length > 0 && !hasState && !names.includes(MARKER)) {
    throw new Error(
      `${folder} has files that are not of the quick start: choose another folder with --state, or move them away`,
    );
  }
  await writeFile(join(folder, MARKER), MARKER_TEXT);
}

/** Keeps the marker, so that the folder is still recognised when this is interrupted. */
async function emptyFolder(folder: string): Promise<void> {
  // Postgres may keep its data in another folder that its own user can reach.
  const postgres = await serverFolder('postgres', join(folder, 'postgres'), await unprivilegedUser());
  await rm(postgres.path, { recursive: true, force: true });
  for (const name of await readdir(folder)) {
    if (name !== MARKER) await rm(join(folder, name), { recursive: true, force: true });
  }
}

function migrationHashes(): State['migrations'] {
  return Object.fromEntries(
    migrationFiles().map(({ name }) => [name, createHash('sha256').update(migrationSql(name)).digest('hex')]),
  );
}
