import { decideWaiting, hasUsableAccount, type WaitingDecision } from '#core/domain/decide-waiting.ts';
import type { ClaimedMessage, DeliveryStore, Lane, WaitingRow } from '#core/store/deliveries.ts';

export type ResolveDeps = {
  readonly store: Pick<
    DeliveryStore,
    'accountsOf' | 'holdMessages' | 'endMessages' | 'assignAccounts' | 'lost'
  >;
  readonly endedUncalled: (message: WaitingRow, reason: 'expired' | 'no_route') => void;
};

export type Resolved = {
  /** Where messages can be claimed now. */
  readonly lanes: readonly Lane[];
  /** Attempts of workers that are gone, to be settled. */
  readonly lost: readonly ClaimedMessage[];
};

/** Does what was decided about messages that wait and were not claimed. What has moved on meanwhile is passed over. */
export async function resolveWaiting(rows: readonly WaitingRow[], deps: ResolveDeps): Promise<Resolved> {
  const { store } = deps;
  const accounts = await accountsFor(rows, store);
  const decided = rows.map((row) => ({
    row,
    decision: decideWaiting(row, accounts.get(row.tenantId) ?? []),
  }));
  const of = <Kind extends WaitingDecision['kind']>(kind: Kind): Decided<Kind>[] =>
    decided.filter((one): one is Decided<Kind> => one.decision.kind === kind);

  const held = of('hold');
  if (held.length > 0) await store.holdMessages(seqsOf(held));
  for (const status of ['expired', 'failed'] as const) {
    const ends = of('end').filter(({ decision }) => decision.status === status);
    const [first] = ends;
    if (first === undefined) continue;
    const ended = await store.endMessages(seqsOf(ends), status, first.decision.failure);
    for (const { row } of ends)
      if (ended.has(row.seq)) deps.endedUncalled(row, status === 'expired' ? 'expired' : 'no_route');
  }
  const assigned = of('assign');
  const toAccounts = assigned.map(({ decision }) => decision.accountId);
  if (assigned.length > 0) await store.assignAccounts(seqsOf(assigned), toAccounts);
  const lost = of('lost');
  return {
    lanes: [
      ...of('lane').map(({ row }) => row),
      ...assigned.map(({ row, decision }) => ({ tenantId: row.tenantId, accountId: decision.accountId })),
    ],
    lost: lost.length === 0 ? [] : await store.lost(seqsOf(lost)),
  };
}

type Decided<Kind extends WaitingDecision['kind']> = {
  readonly row: WaitingRow;
  readonly decision: Extract<WaitingDecision, { kind: Kind }>;
};

const seqsOf = (decided: readonly { row: WaitingRow }[]): number[] => decided.map(({ row }) => row.seq);

/** Of the tenants whose messages may need another account than theirs. */
async function accountsFor(rows: readonly WaitingRow[], store: ResolveDeps['store']) {
  const tenantIds = new Set(rows.filter((row) => !hasUsableAccount(row)).map(({ tenantId }) => tenantId));
  const accounts = tenantIds.size === 0 ? [] : await store.accountsOf([...tenantIds]);
  return Map.groupBy(accounts, ({ tenantId }) => tenantId);
}
