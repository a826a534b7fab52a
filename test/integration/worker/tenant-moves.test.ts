import { afterAll, beforeAll, expect, test } from 'vitest';
import { TENANT_MOVES, TENANT_STATES, type TenantState } from '#core/domain/tenant/tenant-state.ts';
import { moveSuspension, seedTenant } from '#test/support/seed.ts';
import { setupStores } from '#test/support/setup-stores.ts';

/** Runs the api's statements that move tenants on one tenant in each state, and compares the result with the table of moves. */
let b: Awaited<ReturnType<typeof setupStores>>;
beforeAll(async () => (b = await setupStores()));
afterAll(() => b[Symbol.asyncDispose]());

/** Runs `run` on a new tenant in each state. @returns the states afterwards. */
async function moved(run: (tenantId: string) => Promise<unknown>): Promise<string[]> {
  const found: string[] = [];
  for (const state of TENANT_STATES) {
    const { tenantId } = await seedTenant(b.admin);
    await b.admin`
      update despatch.tenants set status = ${state}, suspension_reason = ${state === 'suspended' ? 'manual' : null}
      where id = ${tenantId}`;
    await run(tenantId);
    const [row] = await b.admin<
      { status: string }[]
    >`select status from despatch.tenants where id = ${tenantId}`;
    found.push(row?.status ?? 'none');
  }
  return found;
}

function tabled(to: TenantState): string[] {
  return TENANT_STATES.map((state) =>
    (TENANT_MOVES[state] as readonly TenantState[]).includes(to) ? to : state,
  );
}

test('a suspension moves a tenant only from the states of the table', async () => {
  expect(await moved((id) => moveSuspension(b.admin, id, 'billing'))).toEqual(tabled('suspended'));
});

test('a resumption moves a tenant only from the states of the table', async () => {
  expect(await moved((id) => moveSuspension(b.admin, id, null))).toEqual(tabled('active'));
});

test('a deletion moves a tenant only from the states of the table', async () => {
  const deletion = (id: string) =>
    b.admin.begin(async (tx) => {
      await tx`select set_config('app.tenant', ${id}, true)`;
      await tx`select despatch.begin_deletion(${id})`;
    });
  expect(await moved(deletion)).toEqual(tabled('deleting'));
});
