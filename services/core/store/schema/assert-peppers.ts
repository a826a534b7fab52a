import { pepperFingerprint } from '#core/domain/storage/pepper-fingerprint.ts';
import { databaseFaultOf } from '#core/domain/storage/database-fault.ts';
import type { Secret } from '#core/domain/storage/secret.ts';
import { withDeadline, type Sql } from '#core/platform/postgres/postgres.ts';
import { isUnmigrated } from './schema-readiness.ts';

/** The peppers of a process, by their names in the database. */
export type Peppers = { readonly key?: Secret; readonly receipt: Secret };

const DEADLINE_MS = 1_500;

class PepperError extends Error {
  override readonly name = 'PepperError';
}

/**
 * Asserts that the process has the peppers that the database is used with; the first process of an installation decides which. With
 * another receipt pepper no suppression would count, with another key pepper no service key.
 * @returns false while the database does not answer, or lacks the schema: readiness tells why.
 * @throws PepperError, which names every pepper that differs; other errors of the database.
 */
export async function assertPeppers(sql: Sql, peppers: Peppers): Promise<boolean> {
  const names = Object.keys(peppers);
  const fingerprints = Object.values(peppers).map(pepperFingerprint);
  const asked = sql<{ name: string; isSame: boolean }[]>`
    select p.name, same_pepper(p.name, decode(p.fingerprint, 'hex')) as "isSame"
    from unnest(${names}::text[], ${fingerprints}::text[]) as p (name, fingerprint)`;
  const answers = await withDeadline(asked, DEADLINE_MS).catch((error: unknown) => {
    if (databaseFaultOf(error) === 'away' || isUnmigrated(error)) return undefined;
    throw error;
  });
  const others = (answers ?? []).filter(({ isSame }) => !isSame).map(({ name }) => name);
  if (others.length > 0)
    throw new PepperError(`Not the pepper that this database is used with: ${others.join(', ')}`);
  return answers !== undefined;
}
