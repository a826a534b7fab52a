import { isLockRefused } from '#core/domain/database-fault.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';
import { functionsDigest, type FunctionFile } from '#core/store/migration-files.ts';

export type AppliedFunctions = {
  /** Names of functions that were new or whose text had changed. */
  readonly applied: readonly string[];
  /** Names of functions that were applied before and have no file any more: a migration of a later release drops them. */
  readonly unused: readonly string[];
  /** Whether functions of a newer release were found and left in force. */
  readonly isNewerKept: boolean;
};

class FunctionFileError extends Error {
  override readonly name = 'FunctionFileError';
}

/**
 * Applies the function files whose text differs from the text applied last. All or none, in the caller's transaction. Drops
 * nothing, because services of the previous release keep calling its functions during an upgrade.
 *
 * Changes nothing if these files were applied before and other ones were first applied after them: a release that comes back
 * works with newer functions, while services of the newer release do not work with older functions. `replacesNewer` applies
 * them all the same.
 *
 * Each file is run twice. The first run does not check bodies, because functions call each other and the files have no order.
 * Then every execute right on the new functions is revoked, and the second run, which checks the bodies too, grants exactly the
 * rights that the files name.
 * @throws FunctionFileError naming the invalid file.
 */
export async function applyFunctions(
  tx: TransactionSql,
  files: readonly FunctionFile[],
  replacesNewer = false,
): Promise<AppliedFunctions> {
  await tx`set local role despatch_definer`;
  const digest = functionsDigest(files);
  if (!replacesNewer && (await isReplaced(tx, digest))) return { applied: [], unused: [], isNewerKept: true };
  const stored = new Map(
    (
      await tx<{ name: string; hash: string }[]>`
        select name, encode(hash, 'hex') as hash from despatch.applied_functions order by name`
    ).map(({ name, hash }) => [name, hash]),
  );
  const changed = files.filter(({ name, hash }) => stored.get(name) !== hash);
  if (changed.length > 0) {
    await tx`set local check_function_bodies = off`;
    await run(tx, changed);
    await revokeCalls(tx);
    await tx`set local check_function_bodies = on`;
    await run(tx, changed);
    for (const { name, hash } of changed) {
      await tx`
        insert into despatch.applied_functions (name, hash) values (${name}, decode(${hash}, 'hex'))
        on conflict (name) do update set hash = excluded.hash, applied_at = excluded.applied_at`;
    }
  }
  await tx`
    insert into despatch.function_releases (digest) values (decode(${digest}, 'hex'))
    on conflict (digest) do update set applied_at = excluded.applied_at where ${replacesNewer}`;
  const names = new Set(files.map(({ name }) => name));
  return {
    applied: changed.map(({ name }) => name),
    unused: [...stored.keys()].filter((name) => !names.has(name)),
    isNewerKept: false,
  };
}

/** Returns whether the functions with this digest were applied before other ones were applied for the first time. */
async function isReplaced(tx: TransactionSql, digest: string): Promise<boolean> {
  const [found] = await tx<{ isReplaced: boolean }[]>`
    select exists (
      select from despatch.function_releases own join despatch.function_releases later on later.applied_at > own.applied_at
      where own.digest = decode(${digest}, 'hex')) as "isReplaced"`;
  return found?.isReplaced === true;
}

async function run(tx: TransactionSql, files: readonly FunctionFile[]): Promise<void> {
  for (const { name, sql } of files) {
    try {
      await tx.unsafe(sql);
    } catch (error) {
      if (isLockRefused(error)) throw error;
      const message = error instanceof Error ? error.message : String(error);
      throw new FunctionFileError(`functions/${name}.sql: ${message}`, { cause: error });
    }
  }
}

/** Revokes on the functions that this transaction has created or replaced. Another overload of the same name keeps its rights. */
async function revokeCalls(tx: TransactionSql): Promise<void> {
  const made = await tx<{ signature: string }[]>`
    select oid::regprocedure::text as signature from pg_proc
    where pronamespace = 'despatch'::regnamespace and xmin = pg_current_xact_id()::xid`;
  if (made.length === 0) return;
  const signatures = made.map(({ signature }) => signature).join(', ');
  await tx.unsafe(
    `revoke execute on routine ${signatures} from public, despatch_api, despatch_worker, despatch_controller`,
  );
}
