import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  ACCOUNT_MOVE_NAMES,
  ACCOUNT_MOVES,
  ACCOUNT_STATUSES,
  type AccountMove,
  type AccountMoveName,
} from '#core/domain/account/account-state.ts';
import type { ProviderAccountId, TenantId } from '#core/domain/storage/ids.ts';
import { deleteAccount, markUnverified, setAccountStatus } from '#core/store/accounts/provider-accounts.ts';
import { withTenant } from '#core/store/query/tenant-scope.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';
import { seedAccount } from '#test/support/seed.ts';
import { setupMessages, type MessageBench } from '#test/support/setup-messages.ts';

/**
 * Runs every statement that moves provider accounts on one account in each state, and compares the result with the table of
 * moves.
 */
let b: MessageBench;
beforeAll(async () => (b = await setupMessages()));
afterAll(() => b[Symbol.asyncDispose]());

const STATES = [...ACCOUNT_STATUSES, 'deleted'] as const;

/** Runs `run` on a new account in each state. @returns the states afterwards. */
async function moved(run: (id: ProviderAccountId) => Promise<unknown>): Promise<string[]> {
  const found: string[] = [];
  for (const state of STATES) {
    const id = (await seedAccount(b.admin, b.tenant.tenantId)) as ProviderAccountId;
    await b.admin`update despatch.provider_accounts set status = ${state} where id = ${id}`;
    await run(id);
    const [row] = await b.admin<{ status: string }[]>`
      select status from despatch.provider_accounts where id = ${id}`;
    found.push(row?.status ?? 'none');
  }
  return found;
}

function tabled(name: AccountMoveName): string[] {
  const { from, to }: AccountMove = ACCOUNT_MOVES[name];
  return STATES.map((state) => (state !== 'deleted' && from.includes(state) ? to : state));
}

const inTenant = (work: (tx: TransactionSql, tenantId: TenantId) => Promise<unknown>) => {
  const tenantId = b.tenant.tenantId as TenantId;
  return withTenant(b.api, tenantId, (tx) => work(tx, tenantId));
};

const STATEMENTS: Readonly<Record<AccountMoveName, (id: ProviderAccountId) => Promise<unknown>>> = {
  accept: (id) => b.store.noteVerification(id, 1, 'valid', null),
  refuse: (id) => b.store.noteVerification(id, 1, 'invalid', 'forbidden'),
  change: (id) => inTenant((tx, tenantId) => markUnverified(tenantId, tx, id)),
  enable: (id) => inTenant((tx, tenantId) => setAccountStatus(tenantId, tx, id, 'active')),
  disable: (id) => inTenant((tx, tenantId) => setAccountStatus(tenantId, tx, id, 'disabled')),
  delete: (id) => inTenant((tx, tenantId) => deleteAccount(tenantId, tx, id)),
};

test.each(ACCOUNT_MOVE_NAMES)('the transition %s is made only from the states of the table', async (name) => {
  expect(await moved(STATEMENTS[name])).toEqual(tabled(name));
});

test('an accepted send makes the transition accept only from the states of the table', async () => {
  expect(await moved((id) => b.store.noteAccountResult(id, 1, null))).toEqual(tabled('accept'));
});

test('three refused sends make the transition refuse only from the states of the table', async () => {
  const refuse = async (id: ProviderAccountId) => {
    for (let n = 0; n < 3; n++) await b.store.noteAccountResult(id, 1, 'forbidden');
  };
  expect(await moved(refuse)).toEqual(tabled('refuse'));
});
