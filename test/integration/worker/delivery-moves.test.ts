import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { DELIVERY_MOVES, type DeliveryStatus } from '#core/domain/webhooks/delivery-state.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { findDelivery, recoverDeliveries, redeliver } from '#core/store/webhooks/endpoint-deliveries.ts';
import { withTenant } from '#core/store/query/tenant-scope.ts';
import type { DeliveryClaim } from '#core/store/webhooks/delivery-claim.ts';
import { findEndpoint } from '#core/store/webhooks/webhook-endpoints.ts';
import { attemptOf, partsOf, setupWebhooks } from '#test/support/setup-webhooks.ts';

/**
 * The actions of workers and people on a delivery: a call succeeds, fails or exhausts its retries; no call is made; a lease
 * expires.
 */
const STEPS = ['claim', 'succeed', 'fail', 'give_up', 'leave', 'lose', 'redeliver', 'recover'] as const;
type Step = (typeof STEPS)[number];
/** Together these make every move. */
const TOURS: readonly Step[][] = [
  ['claim', 'leave', 'claim', 'fail', 'claim', 'lose', 'claim', 'succeed'],
  ['claim', 'succeed', 'redeliver', 'claim', 'fail', 'redeliver'],
  ['claim', 'give_up', 'recover', 'claim'],
];
/** Random histories beside the tours. */
const HISTORIES = 8;

/** Sets up an endpoint with one event. */
async function startDelivery(b: Awaited<ReturnType<typeof setupWebhooks>>) {
  const tenantId = b.tenant.tenantId as TenantId;
  const { events } = await b.loadIds();
  const id = await b.endpoint({ matched_to: await lastOfFeed() });
  await b.send(1);
  await b.matchAll();
  let claim: DeliveryClaim | undefined;

  async function lastOfFeed(): Promise<number> {
    const [row] = await b.admin<{ last: number }[]>`
      select coalesce(max(last_seq), 0)::int as last from despatch.feed where tenant_id = ${tenantId}`;
    return row?.last ?? 0;
  }

  async function status(): Promise<DeliveryStatus | undefined> {
    return withTenant(b.api, tenantId, async (tx) => {
      const endpoint = await findEndpoint(tenantId, tx, id);
      return endpoint && (await findDelivery(tenantId, tx, events, endpoint, 1))?.status;
    });
  }

  async function end(made: DeliveryClaim, how: 'succeed' | 'fail' | 'give_up' | 'leave'): Promise<void> {
    const again = [{ seq: 1, attempts: made.attempts + 1, dueAt: new Date(), messageSeq: null }];
    const completion = {
      ...partsOf(made),
      attempts: how === 'leave' ? [] : [attemptOf(made, 1, how === 'succeed')],
      // A redelivery that a person requested is not retried.
      again: how === 'fail' && !made.manual ? again : [],
      uncalled: how === 'leave' ? [{ first: 1, last: 1 }] : [],
    };
    expect(await b.webhooks.completeDeliveries([completion])).toEqual({ stale: 0 });
  }

  async function take(step: Step): Promise<void> {
    switch (step) {
      case 'claim':
        if (claim === undefined) claim = (await b.claims()).find(({ endpoint }) => endpoint.id === id);
        return;
      case 'redeliver':
        await withTenant(b.api, tenantId, (tx) => redeliver(tenantId, tx, id, 1));
        return;
      case 'recover':
        await withTenant(b.api, tenantId, (tx) =>
          recoverDeliveries(tenantId, tx, id, { since: '2000-01-01T00:00:00Z', until: null }),
        );
        return;
      case 'lose':
        if (claim === undefined) return;
        await b.admin`update despatch.due_deliveries set due_at = now() where endpoint_id = ${id}`;
        break;
      case 'succeed':
      case 'fail':
      case 'give_up':
      case 'leave':
        if (claim === undefined) return;
        await end(claim, step);
    }
    claim = undefined;
  }

  return { status, take };
}

test('random histories of a delivery make all state transitions of the table, and no others', async () => {
  await using b = await setupWebhooks();
  const seen = new Set<string>();
  const step = fc.constantFrom<Step[]>('claim', 'claim', 'claim', ...STEPS);
  const histories = fc.sample(fc.array(step, { minLength: 30, maxLength: 30 }), HISTORIES);
  for (const steps of [...TOURS, ...histories]) {
    const delivery = await startDelivery(b);
    let before = await delivery.status();
    expect(before).toBe('pending');
    for (const one of steps) {
      await delivery.take(one);
      const after = await delivery.status();
      if (before === undefined || after === undefined) throw new Error('the delivery is gone');
      if (after !== before) {
        expect(DELIVERY_MOVES[before], `${before} -> ${after} by ${one} of ${steps.join()}`).toContain(after);
        seen.add(`${before} -> ${after}`);
      }
      before = after;
    }
  }
  const table = Object.entries(DELIVERY_MOVES).flatMap(([from, moves]) =>
    moves.map((to) => `${from} -> ${to}`),
  );
  expect([...seen].toSorted()).toEqual(table.toSorted());
});
