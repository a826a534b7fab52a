import { randomBytes } from 'node:crypto';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

export type SavedTenant = {
  readonly id: string;
  readonly slug: string;
  readonly serviceKey: string;
  /** Sends nothing: simulators answer. */
  readonly testKey: string;
};

export type ServicePasswords = Readonly<Record<'api' | 'worker' | 'controller', string>>;

/** What a later start needs to continue with the data of an earlier one. */
export type State = {
  /** SHA-256 of each migration that created the database. */
  readonly migrations: Readonly<Record<string, string>>;
  /** The sign-in issuer in tokens and accounts, independent of its port. */
  readonly issuer: string;
  readonly pepper: string;
  readonly receiptPepper: string;
  readonly databasePasswords: ServicePasswords;
  readonly natsPasswords: ServicePasswords;
  /** Absent until the first start has created them. */
  readonly tenants?: { readonly first: SavedTenant; readonly other: SavedTenant };
};

/** Returns one password per service. */
export function newPasswords(): ServicePasswords {
  return { api: randomText(), worker: randomText(), controller: randomText() };
}

export function newState(migrations: State['migrations'], issuer: string): State {
  return {
    migrations,
    issuer,
    pepper: randomText(),
    receiptPepper: randomText(),
    databasePasswords: newPasswords(),
    natsPasswords: newPasswords(),
  };
}

/** Returns why the data of an earlier start cannot be used; undefined if it can. */
export function staleness(state: State | undefined, migrations: State['migrations']): string | undefined {
  if (state?.tenants === undefined) return 'an earlier start did not get to its end';
  const changed = Object.entries(state.migrations).find(([name, hash]) => migrations[name] !== hash)?.[0];
  return changed === undefined ? undefined : `the database was made by another ${changed}`;
}

/** Returns undefined when there is no state or it is unreadable. */
export async function readState(folder: string): Promise<State | undefined> {
  try {
    return JSON.parse(await readFile(join(folder, 'state.json'), 'utf8')) as State;
  } catch {
    return undefined;
  }
}

export async function writeState(folder: string, state: State): Promise<void> {
  await writePrivateJson(join(folder, 'state.json'), state);
}

/** Writes the file atomically with mode 0600. */
export async function writePrivateJson(path: string, value: unknown): Promise<void> {
  const draft = `${path}.${process.pid}`;
  await writeFile(draft, `${JSON.stringify(value, null, 2)}\n`, { mode: 0o600 });
  await rename(draft, path);
}

function randomText(): string {
  return randomBytes(32).toString('hex');
}
