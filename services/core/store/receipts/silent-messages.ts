import { addressKeyHex, type AddressKeyRoot } from '#core/domain/recipient/address-key.ts';
import type { Channel } from '#core/domain/message/channel.ts';
import type { SilenceDecision, SilentMessage } from '#core/domain/receipts/decide-silence.ts';
import type { Route } from '#core/domain/routing/route.ts';
import { asJson, type Sql } from '#core/platform/postgres/postgres.ts';
import { inTransaction } from '../query/after-commit.ts';
import type { Bounded } from '../query/bounded-queries.ts';
import { camelRows } from '../query/camel-rows.ts';

/** A sent message whose wait for a receipt is over. */
export type SilentRow = SilentMessage & {
  readonly seq: number;
  readonly purgeOn: string;
  readonly tenantId: string;
  readonly channel: Channel | null;
  /** Null if the message was purged. */
  readonly address: string | null;
  readonly provider: string | null;
};

/** The facts about tenants that decide about their silent messages. */
export type SilenceRouting = {
  /** Accounts that are neither disabled nor deleted, the oldest of each tenant first. */
  readonly accounts: readonly (TenantRow & {
    readonly id: string;
    readonly channel: Channel;
    readonly provider: string;
    readonly status: string;
  })[];
  readonly routes: readonly (TenantRow & Route)[];
};
type TenantRow = { readonly tenantId: string };

export type SilenceDecided = { readonly row: SilentRow; readonly decision: SilenceDecision };

/** Sent messages that go on to another account. @param bounded gives a query its deadline. */
export function silentMessageStore(sql: Sql, bounded: Bounded, addressKeys: AddressKeyRoot) {
  return {
    /**
     * Settles sent messages whose wait for a receipt is over, in one transaction that locks them.
     * @param decide makes the decisions; a pure function.
     * @returns the decisions, without moves that were not made.
     */
    settleSilent: (
      most: number,
      decide: (due: readonly SilentRow[], routing: SilenceRouting) => readonly SilenceDecided[],
    ): Promise<readonly SilenceDecided[]> =>
      bounded(
        inTransaction(sql, async (tx) => {
          const due = camelRows<SilentRow>(await tx`select * from take_silent(${most})`.values());
          if (due.length === 0) return [];
          const tenants = [...new Set(due.map(({ tenantId }) => tenantId))];
          const accounts = camelRows<SilenceRouting['accounts'][number]>(
            await tx`select tenant_id, id, channel, provider, status from accounts_of(${tenants}::uuid[])`.values(),
          );
          const routes = camelRows<SilenceRouting['routes'][number]>(
            await tx`select tenant_id, channel, version, strategy, steps, failover_on, max_wait_ms, receipt_timeout_ms
              from routes_of(${tenants}::uuid[])`.values(),
          );
          const decided = decide(due, { accounts, routes });
          const moves = decided.flatMap((one) => moveOf(one, addressKeys));
          const later = decided.flatMap(({ row: { seq }, decision }) =>
            decision.kind === 'later' ? [{ seq, ms: Math.ceil(decision.ms) }] : [],
          );
          const done = decided.flatMap(({ row, decision }) => (decision.kind === 'stay' ? [row.seq] : []));
          const rows = await tx<{ seq: number }[]>`
            select fail_over_silent(${asJson(tx, moves)}, ${asJson(tx, later)}, ${done}::bigint[]) as seq`;
          const moved = new Set(rows.map(({ seq }) => seq));
          return decided.filter(({ row, decision }) => decision.kind !== 'move' || moved.has(row.seq));
        }),
      ),
  };
}

/** Returns the move with the names that `fail_over_silent` reads; `details` are those of the event. */
function moveOf({ row, decision }: SilenceDecided, addressKeys: AddressKeyRoot) {
  const { seq, purgeOn, tenantId, channel, address, accountId: from, silentMs: waitedMs } = row;
  if (decision.kind !== 'move' || channel === null || address === null) return [];
  const { rerouted } = decision;
  return {
    seq,
    purge_on: purgeOn,
    to: rerouted.accountId,
    address_key: addressKeyHex(addressKeys, tenantId, channel, address),
    details: { reason: 'failed_over', from, why: 'receipt_timeout', waitedMs, rerouted },
  };
}
