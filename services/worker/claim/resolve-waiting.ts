import { decideWaiting, hasUsableAccount, type WaitingDecision } from '#core/domain/decide-waiting.ts';
import type { FailureClass } from '#core/domain/failure.ts';
import type { ClosedReason } from '#core/domain/skipped-account.ts';
import type { FailoverLabels } from '#core/platform/telemetry/metrics.ts';
import type { Assignment, WorkerStore } from '#core/store/worker-store.ts';
import type { ClaimedMessage } from '#core/store/claimed-message.ts';
import type { Lane, WaitingRow } from '#core/store/lane.ts';

export type ResolveDeps = {
  readonly store: Pick<
    WorkerStore,
    'accountsOf' | 'routesOf' | 'moveMessages' | 'returnSent' | 'assignAccounts' | 'lost'
  >;
  readonly endedUncalled: (message: WaitingRow, reason: FailureClass | 'suppressed') => void;
  readonly failedOver: (failover: FailoverLabels) => void;
  /** Returns why an account cannot be called now. Absent: messages that wait for an account keep waiting. */
  readonly whyClosed?: (accountId: string) => ClosedReason | undefined;
};

export type Resolved = {
  /** Lanes with messages that can be claimed now. */
  readonly lanes: readonly Lane[];
  /** Attempts of workers that are gone, to be settled. */
  readonly lost: readonly ClaimedMessage[];
  /** Number of messages that were moved to another state or account. */
  readonly moved: number;
};

/** Carries out the decisions about waiting messages. Messages that have changed since they were read are skipped. */
export async function resolveWaiting(rows: readonly WaitingRow[], deps: ResolveDeps): Promise<Resolved> {
  const { store } = deps;
  const { accounts, routes } = await routingFor(rows, deps);
  const closed = closedOf(
    accounts.values().flatMap((of) => of),
    deps,
  );
  const decided = rows.map((row) => ({
    row,
    decision: decideWaiting(row, accounts.get(row.tenantId) ?? [], routes.get(row.tenantId) ?? [], closed),
  }));
  const of = <Kind extends WaitingDecision['kind']>(kind: Kind): Decided<Kind>[] =>
    decided.filter((one): one is Decided<Kind> => one.decision.kind === kind);

  const queued: WaitingRow[] = [];
  let moves = 0;
  for (const [{ status, failure, reason = null }, alike] of Map.groupBy(
    of('move'),
    ({ decision }) => decision,
  )) {
    const ended = await store.moveMessages(seqsOf(alike), status, failure, reason);
    moves += ended.size;
    if (status === 'queued') queued.push(...alike.map(({ row }) => row).filter(({ seq }) => ended.has(seq)));
    const why = failure?.class ?? (status === 'suppressed' || status === 'unknown' ? status : undefined);
    if (why === undefined) continue;
    for (const { row } of alike) if (ended.has(row.seq)) deps.endedUncalled(row, why);
  }
  for (const [why, alike] of Map.groupBy(of('return'), ({ decision }) => decision.why))
    moves += (await store.returnSent(seqsOf(alike), why)).size;
  const assigned = of('assign');
  const moved =
    assigned.length === 0 ? new Set<number>() : await store.assignAccounts(assigned.map(toAssignment));
  moves += moved.size;
  for (const { row, decision } of assigned) {
    if (!moved.has(row.seq)) continue;
    const to = accounts.get(row.tenantId)?.find(({ id }) => id === decision.rerouted.accountId);
    deps.failedOver({
      channel: row.channel,
      provider: row.provider ?? 'unknown',
      to: to?.provider ?? 'unknown',
      because: decision.why,
    });
  }
  const lost = of('lost');
  return {
    lanes: [
      ...of('lane').map(({ row }) => row),
      ...queued,
      ...assigned.map(({ row, decision }) => ({
        tenantId: row.tenantId,
        accountId: decision.rerouted.accountId,
      })),
    ],
    lost: lost.length === 0 ? [] : await store.lost(seqsOf(lost)),
    moved: moves,
  };
}

function toAssignment({ row, decision }: Decided<'assign'>): Assignment {
  const { seq, accountId: from, waitedMs } = row;
  return { seq, from, rerouted: decision.rerouted, why: decision.why, waitedMs };
}

type Decided<Kind extends WaitingDecision['kind']> = {
  readonly row: WaitingRow;
  readonly decision: Extract<WaitingDecision, { kind: Kind }>;
};

const seqsOf = (decided: readonly { row: WaitingRow }[]): number[] => decided.map(({ row }) => row.seq);

/** Loads accounts and routes of the tenants with messages that may need another account. */
async function routingFor(rows: readonly WaitingRow[], { store, whyClosed }: ResolveDeps) {
  const needsAnother = (row: WaitingRow): boolean =>
    !hasUsableAccount(row) || whyClosed?.(row.accountId) !== undefined;
  const tenantIds = [...new Set(rows.filter(needsAnother).map(({ tenantId }) => tenantId))];
  const [accounts, routes] =
    tenantIds.length === 0
      ? [[], []]
      : await Promise.all([store.accountsOf(tenantIds), store.routesOf(tenantIds)]);
  return {
    accounts: Map.groupBy(accounts, ({ tenantId }) => tenantId),
    routes: Map.groupBy(routes, ({ tenantId }) => tenantId),
  };
}

/** Evaluates each account once, so that all messages are decided about alike. */
function closedOf(
  accounts: Iterable<{ readonly id: string }>,
  { whyClosed }: ResolveDeps,
): Map<string, ClosedReason> {
  const closed = new Map<string, ClosedReason>();
  if (whyClosed === undefined) return closed;
  for (const { id } of accounts) {
    const why = whyClosed(id);
    if (why !== undefined) closed.set(id, why);
  }
  return closed;
}
