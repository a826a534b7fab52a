import {
  decideWaiting,
  hasUsableAccount,
  type WaitingDecision,
} from '#core/domain/sending/decide-waiting.ts';
import type { FailureClass } from '#core/domain/sending/failure.ts';
import type { FailoverLabels } from '#core/platform/telemetry/worker-labels.ts';
import type { Assignment } from '#core/store/sending/waiting-messages.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';
import type { ClaimedMessage } from '#core/store/sending/claimed-message.ts';
import type { Lane, WaitingRow } from '#core/store/sending/lane.ts';
import { closedAccounts, type WhyClosed } from './closed-accounts.ts';

export type ResolveDeps = {
  readonly store: Pick<
    WorkerStore,
    'accountsOf' | 'routesOf' | 'moveMessages' | 'returnSent' | 'assignAccounts' | 'lost'
  >;
  readonly endedUncalled: (message: WaitingRow, reason: FailureClass | 'suppressed') => void;
  readonly failedOver: (failover: FailoverLabels) => void;
  /** Absent: messages that wait for an account keep waiting. */
  readonly whyClosed?: WhyClosed | undefined;
};

/**
 * Decides about waiting messages and carries that out. Messages that have changed since they were read are skipped.
 * @param whyClosed absent: messages that wait for an account keep waiting.
 */
export type ResolveWaiting = (rows: readonly WaitingRow[], whyClosed?: WhyClosed) => Promise<Resolved>;

export type Resolved = {
  /** Lanes with messages that can be claimed now. */
  readonly lanes: readonly Lane[];
  /** Attempts of workers that are gone, to be settled. */
  readonly lost: readonly ClaimedMessage[];
  /** Number of messages that were moved to another state or account. */
  readonly moved: number;
};

export function createResolveWaiting(deps: Omit<ResolveDeps, 'whyClosed'>): ResolveWaiting {
  return (rows, whyClosed) => resolveWaiting(rows, { ...deps, whyClosed });
}

export async function resolveWaiting(rows: readonly WaitingRow[], deps: ResolveDeps): Promise<Resolved> {
  const { accounts, routes } = await routingFor(rows, deps);
  const closed =
    deps.whyClosed &&
    closedAccounts(
      accounts.values().flatMap((its) => its),
      deps.whyClosed,
    );
  const decided = rows.map((row) => ({
    row,
    decision: decideWaiting(row, accounts.get(row.tenantId) ?? [], routes.get(row.tenantId) ?? [], closed),
  }));
  const of = <Kind extends WaitingDecision['kind']>(kind: Kind): Decided<Kind>[] =>
    decided.filter((one): one is Decided<Kind> => one.decision.kind === kind);

  const { moved, queued } = await move(of('move'), deps);
  const returned = await returnToSent(of('return'), deps);
  const assigned = of('assign');
  const reassigned = await assign(assigned, accounts, deps);
  const lost = of('lost');
  return {
    lanes: [
      ...of('lane').map(({ row }) => row),
      ...queued,
      ...assigned.map(({ row: { tenantId }, decision }) => ({
        tenantId,
        accountId: decision.rerouted.accountId,
      })),
    ],
    lost: lost.length === 0 ? [] : await deps.store.lost(seqsOf(lost)),
    moved: moved + returned + reassigned,
  };
}

type Decided<Kind extends WaitingDecision['kind']> = {
  readonly row: WaitingRow;
  readonly decision: Extract<WaitingDecision, { kind: Kind }>;
};

/**
 * Moves messages that end, are held or are queued without a call.
 * @returns the number of moved messages, and those that are queued now.
 */
async function move(
  decided: readonly Decided<'move'>[],
  { store, endedUncalled }: ResolveDeps,
): Promise<{ readonly moved: number; readonly queued: readonly WaitingRow[] }> {
  const queued: WaitingRow[] = [];
  let moved = 0;
  for (const [to, alike] of Map.groupBy(decided, ({ decision }) => decision)) {
    const { status, failure, reason = null } = to;
    const ended = await store.moveMessages(seqsOf(alike), status, failure, reason);
    moved += ended.size;
    const rows = alike.map(({ row }) => row).filter(({ seq }) => ended.has(seq));
    if (status === 'queued') queued.push(...rows);
    const why = failure?.class ?? (status === 'suppressed' || status === 'unknown' ? status : undefined);
    if (why !== undefined) for (const row of rows) endedUncalled(row, why);
  }
  return { moved, queued };
}

/** @returns the number of messages that went back to `sent`. */
async function returnToSent(decided: readonly Decided<'return'>[], { store }: ResolveDeps): Promise<number> {
  let returned = 0;
  for (const [why, alike] of Map.groupBy(decided, ({ decision }) => decision.why))
    returned += (await store.returnSent(seqsOf(alike), why)).size;
  return returned;
}

/** @returns the number of messages that were given to another account. */
async function assign(
  decided: readonly Decided<'assign'>[],
  accounts: ReadonlyMap<string, readonly { readonly id: string; readonly provider: string }[]>,
  { store, failedOver }: ResolveDeps,
): Promise<number> {
  if (decided.length === 0) return 0;
  const moved = await store.assignAccounts(decided.map(toAssignment));
  for (const { row, decision } of decided) {
    if (!moved.has(row.seq)) continue;
    const to = accounts.get(row.tenantId)?.find(({ id }) => id === decision.rerouted.accountId);
    failedOver({
      channel: row.channel,
      provider: row.provider ?? 'unknown',
      to: to?.provider ?? 'unknown',
      because: decision.why,
    });
  }
  return moved.size;
}

function toAssignment({ row, decision }: Decided<'assign'>): Assignment {
  const { seq, accountId: from, waitedMs } = row;
  return { seq, from, rerouted: decision.rerouted, why: decision.why, waitedMs };
}

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
