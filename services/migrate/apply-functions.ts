import { compare as compareVersions } from 'semver';
import { isLockRefused, isRedefinition } from '#core/domain/storage/database-fault.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';
import { functionsDigest, type FunctionFile } from '#core/store/schema/migration-files.ts';

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

export type FunctionRelease = {
  readonly files: readonly FunctionFile[];
  /** Version of the build that the files are of. */
  readonly version: string;
  /** Whether the files replace those of a newer release too. Default false. */
  readonly replacesNewer?: boolean | undefined;
};

/**
 * Applies the function files whose text differs from the text applied last. All or none, in the caller's transaction. Drops
 * nothing, because services of the previous release keep calling its functions during an upgrade.
 *
 * Replaces nothing if a release of a higher version was applied before, or another build of this version was first applied after
 * this one: an older release works with newer functions, while services of the newer release do not work with older functions.
 * Then only functions that the database does not have are added, which a release that was skipped may bring, overloads of known
 * names among them. `replacesNewer` applies all of them all the same.
 *
 * Each file is run twice. The first run does not check bodies, because functions call each other and the files have no order.
 * Then every execute right on the new functions is revoked, and the second run, which checks the bodies too, grants exactly the
 * rights that the files name.
 * @throws FunctionFileError naming the invalid file.
 */
export async function applyFunctions(
  tx: TransactionSql,
  { files, version, replacesNewer = false }: FunctionRelease,
): Promise<AppliedFunctions> {
  await tx`set local role despatch_definer`;
  const digest = functionsDigest(files);
  const releases = await tx<Release[]>`
    select encode(digest, 'hex') as digest, version from despatch.function_releases order by applied_at`;
  const isNewerKept = !replacesNewer && isReplaced(releases, { digest, version });
  const stored = new Map(
    (
      await tx<{ name: string; hash: string }[]>`
        select name, encode(hash, 'hex') as hash from despatch.applied_functions order by name`
    ).map(({ name, hash }) => [name, hash]),
  );
  const changed = files.filter(({ name, hash }) => stored.get(name) !== hash);
  const applied = isNewerKept ? await missingOf(tx, changed) : changed;
  if (applied.length > 0) await applyFiles(tx, applied, { isNewerKept });
  const known = releases.find((release) => release.digest === digest);
  if (known === undefined || replacesNewer || compareVersions(version, known.version) > 0) {
    await tx`
      insert into despatch.function_releases (digest, version) values (decode(${digest}, 'hex'), ${version})
      on conflict (digest) do update set version = excluded.version, applied_at = excluded.applied_at`;
  }
  const names = new Set(files.map(({ name }) => name));
  return {
    applied: applied.map(({ name }) => name),
    unused: isNewerKept ? [] : [...stored.keys()].filter((name) => !names.has(name)),
    isNewerKept,
  };
}

/** The highest version that had the functions with this digest. */
type Release = { readonly digest: string; readonly version: string };

/**
 * Returns whether functions of a newer release than this one are in force.
 * @param releases in the order in which they were first applied with their version.
 */
function isReplaced(releases: readonly Release[], { digest, version }: Release): boolean {
  const place = releases.findIndex((release) => release.digest === digest);
  const known = releases[place]?.version;
  // A later version may have had the same functions.
  const own = known !== undefined && compareVersions(known, version) > 0 ? known : version;
  const isKnown = known !== undefined && compareVersions(known, own) === 0;
  return releases.some((other, index) => {
    const order = compareVersions(other.version, own);
    return order > 0 || (order === 0 && isKnown && index > place);
  });
}

/** Returns those files whose functions the database does not have, not even with another body. */
async function missingOf(tx: TransactionSql, files: readonly FunctionFile[]): Promise<FunctionFile[]> {
  const missing: FunctionFile[] = [];
  for (const file of files) if (await isMissing(tx, file)) missing.push(file);
  return missing;
}

/** Finds out by a trial, which is rolled back: the file's text does not tell whether an overload of its name is the same function. */
async function isMissing(tx: TransactionSql, { name, sql }: FunctionFile): Promise<boolean> {
  let isNew = false;
  try {
    await tx.savepoint(async (trial) => {
      await trial`set local check_function_bodies = off`;
      const before = await countFunctions(trial);
      await run(trial, [{ name, sql }]);
      isNew = (await countFunctions(trial)) > before;
      throw TRIED;
    });
  } catch (error) {
    if (error === TRIED) return isNew;
    if (error instanceof FunctionFileError && isRedefinition(error.cause)) return false;
    throw error;
  }
  return isNew;
}

/** Thrown to roll a trial back. */
const TRIED = new Error('rolled back');

async function countFunctions(tx: TransactionSql): Promise<number> {
  const [row] = await tx<{ n: number }[]>`
    select count(*)::integer as n from pg_proc where pronamespace = 'despatch'::regnamespace`;
  return row?.n ?? 0;
}

async function applyFiles(
  tx: TransactionSql,
  files: readonly FunctionFile[],
  { isNewerKept }: Pick<AppliedFunctions, 'isNewerKept'>,
): Promise<void> {
  await tx`set local check_function_bodies = off`;
  await run(tx, files);
  await revokeCalls(tx);
  await tx`set local check_function_bodies = on`;
  await run(tx, files);
  for (const { name, hash } of files) {
    await tx`
      insert into despatch.applied_functions (name, hash) values (${name}, decode(${hash}, 'hex'))
      on conflict (name) do update set hash = excluded.hash, applied_at = excluded.applied_at
      -- A newer release's function of this name stays beside the overload.
      where ${!isNewerKept}`;
  }
}

async function run(tx: TransactionSql, files: readonly Pick<FunctionFile, 'name' | 'sql'>[]): Promise<void> {
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
