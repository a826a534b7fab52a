import { randomBytes } from 'node:crypto';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';
import { scramVerifier } from './scram-verifier.ts';

const SERVICE_ROLES = ['api', 'worker', 'controller'] as const;

export type RolePasswords = { readonly [Role in (typeof SERVICE_ROLES)[number]]?: string };

/** Creates what the migrations need: roles, the schema and the tables of what has been applied. */
export async function prepareRoles(tx: TransactionSql, passwords: RolePasswords): Promise<void> {
  // Role names are constants of this file and need no quoting; `create role if not exists` does not exist.
  const present = new Set(
    (await tx<{ rolname: string }[]>`select rolname from pg_roles where rolname like 'despatch\\_%'`).map(
      (r) => r.rolname,
    ),
  );
  if (!present.has('despatch_definer')) await createRole(tx, 'despatch_definer', 'nologin');
  for (const role of SERVICE_ROLES) {
    if (!present.has(`despatch_${role}`)) await createRole(tx, `despatch_${role}`, 'login');
    const password = passwords[role];
    if (password !== undefined) {
      const verifier = await scramVerifier(password, randomBytes(16));
      await tx.unsafe(`alter role despatch_${role} password '${verifier}'`);
    }
  }
  // Only the role that created it, or that was granted it with the admin option, may grant it; for a member nothing is left to
  // do.
  const [membership] = await tx<{ holds: boolean }[]>`
    select pg_has_role(current_user, 'despatch_definer', 'SET') as holds`;
  if (membership?.holds !== true) await tx`grant despatch_definer to current_user`;
  await tx`create schema if not exists despatch authorization despatch_definer`;
  await tx`set local role despatch_definer`;
  await tx`create table if not exists despatch.migrations (
    version integer primary key, name text not null unique, applied_at timestamptz not null default now())`;
  await tx`create table if not exists despatch.applied_functions (
    name text primary key, hash bytea not null, applied_at timestamptz not null default now())`;
  // The digest of every complete set of functions that was applied, or for which newer ones were left in force; a service waits
  // for its own digest before it is ready. The version is the highest that had it, and the time when that was first applied.
  await tx`create table if not exists despatch.function_releases (
    digest bytea primary key, version text not null, applied_at timestamptz not null default now())`;
  // Functions are executable only by the roles that they are granted to.
  await tx`alter default privileges revoke execute on functions from public`;
}

/** Creates a role. Roles belong to the whole server, so the migration of another database may be creating the same one. */
async function createRole(tx: TransactionSql, name: string, login: 'login' | 'nologin'): Promise<void> {
  await tx.unsafe(
    `do $$ begin create role ${name} ${login}; exception when duplicate_object or unique_violation then null; end $$`,
  );
}
