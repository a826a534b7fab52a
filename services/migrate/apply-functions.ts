import { isLockRefused } from '#core/domain/database-fault.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';
import { functionsDigest, type FunctionFile } from '#core/store/migration-files.ts';

export type AppliedFunctions = {
  /** Names of functions that were new or whose text had changed. */
  readonly applied: readonly string[];
  /** Names of functions that were applied before and have no file any more: a migration of a later release drops them. */
  readonly unused: readonly string[];
};

class FunctionFileError extends Error {
  override readonly name = 'FunctionFileError';
}

/**
 * Applies the function files whose text differs from the text applied last. All or none, in the caller's transaction. Drops
 * nothing, because services of the previous release keep calling its functions during an upgrade.
 *
 * Each file is run twice. The first run does not check bodies, because functions call each other and the files have no order.
 * Then every execute right on the new functions is revoked, and the second run, which checks the bodies too, grants exactly the
 * rights that the files name.
 * @throws FunctionFileError naming the invalid file.
 */
export async function applyFunctions(
  tx: TransactionSql,
  files: readonly FunctionFile[],
): Promise<AppliedFunctions> {
  await tx`set local role despatch_definer`;
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
    insert into despatch.function_releases (digest) values (decode(${functionsDigest(files)}, 'hex'))
    on conflict do nothing`;
  const names = new Set(files.map(({ name }) => name));
  return {
    applied: changed.map(({ name }) => name),
    unused: [...stored.keys()].filter((name) => !names.has(name)),
  };
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
