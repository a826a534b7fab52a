import type { AttemptOutcome } from '#core/domain/sending/outcome.ts';
import type { MessageClaimTerms } from '#core/store/sending/claimed-message.ts';
import type { DueRow, EarlierLook, SearchedLane, WaitingRow } from '#core/store/sending/lane.ts';
import { acceptBatch, acceptRow, seedAccount, type SeededTenant, seedTenant } from '#test/support/seed.ts';
import { setupStores } from './setup-stores.ts';

export const terms = (overrides: Partial<MessageClaimTerms> = {}): MessageClaimTerms => ({
  worker: 'w1',
  leaseMs: 60_000,
  ...overrides,
});

/** Sets up a tenant with an account, and the single steps that workers take with its messages. */
export async function setupMessages() {
  const stores = await setupStores();
  const tenant = await seedTenant(stores.admin);
  const accountId = await seedAccount(stores.admin, tenant.tenantId);
  /** Accepts messages. @returns their numbers. */
  async function accept(n = 1, overrides: Record<string, unknown> = {}, of: SeededTenant = tenant) {
    const rows = Array.from({ length: n }, () => acceptRow(of, overrides));
    await acceptBatch(stores.api, rows);
    return rows.map(({ seq }) => seq);
  }
  /** Claims from the tenant's lane for its account. */
  const claimDue = (most: number, aheadMs: number, more: Partial<MessageClaimTerms> = {}) =>
    stores.store.claimDue([{ tenantId: tenant.tenantId, accountId, most, aheadMs }], terms(more));
  return {
    ...stores,
    tenant,
    accountId,
    accept,
    claimDue,
    [Symbol.asyncDispose]: () => stores[Symbol.asyncDispose](),
  };
}

export type MessageBench = Awaited<ReturnType<typeof setupMessages>>;

/** Returns the rows of a poll, without the one that records its time. */
export async function dueRows(b: MessageBench, earlier?: EarlierLook): Promise<DueRow[]> {
  return (await b.store.dueLanes(earlier)).filter(({ task }) => task !== 'looked');
}

export const accepted: AttemptOutcome = { kind: 'accepted', providerMessageId: 'p-1' };

export const transient: AttemptOutcome = {
  kind: 'rejected_transient',
  failure: { class: 'provider_unavailable', code: 'http_503' },
};

/** Returns the states of all messages in the order of acceptance. */
export async function states(b: MessageBench): Promise<string[]> {
  const rows = await b.admin<{ status: string }[]>`select status from despatch.message_states order by seq`;
  return rows.map((row) => row.status);
}

/** Returns the due messages of a lane that no claim takes. @throws where they fill more than one page. */
export async function waitingIn(b: MessageBench, lane: SearchedLane): Promise<WaitingRow[]> {
  const { rows, next } = await b.store.findWaitingDue(lane, { most: 10, readsMax: 100 });
  if (next !== undefined) throw new Error('the lane has more than a page');
  return [...rows];
}
