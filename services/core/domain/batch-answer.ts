import type { ErrorCode, ErrorDetail, NamedLimit } from './app-error.ts';

export const BATCH_MODES = ['permissive', 'strict'] as const;
export type BatchMode = (typeof BATCH_MODES)[number];

/** Why an item of a batch was not taken: an error as a client sees it, as plain data. */
export type ItemFault = {
  readonly code: ErrorCode;
  readonly message: string;
  readonly details?: readonly ErrorDetail[];
  readonly limit?: NamedLimit;
  /** Seconds. */
  readonly retryAfter?: number;
};

/**
 * What is known of an item before the database is asked to store it: the answer that it will have, the one that its own
 * idempotency key was answered with before, or its fault.
 */
export type ItemDraft<Accepted> =
  | { readonly accepted: Accepted }
  | { readonly earlier: Accepted }
  | { readonly fault: ItemFault };

/**
 * Why an item is not taken that has no fault of its form. `unsettled`: the first request with its key has no answer yet;
 * `unstorable`: the database refuses it.
 */
export type Refusal = RefusalVerdict | 'unsettled' | 'unstorable';
type RefusalVerdict = 'mismatch' | 'suspended' | 'rate_limited' | 'daily_limit_reached' | 'backlog_full';

/** All that the answer to a batch is made of, but the verdicts. It is stored with them, so that a replay is the same. */
export type BatchDraft<Accepted> = {
  readonly batchId: string;
  readonly items: readonly ItemDraft<Accepted>[];
  readonly refusals: Readonly<Record<Refusal, ItemFault>>;
};

/** Of one item without a fault, in their order. */
export type ItemVerdict = {
  readonly verdict: 'accepted' | 'replayed' | RefusalVerdict;
  readonly response?: unknown;
  readonly retryAfter?: number | null;
};

export type ItemResult<Accepted> =
  | { readonly kind: 'accepted' | 'replayed'; readonly accepted: Accepted }
  | { readonly kind: 'refused'; readonly fault: ItemFault };

/**
 * What became of each item.
 * @param verdicts Of those that the database was asked to store, in their order.
 */
export function itemResults<Accepted>(
  { items, refusals }: BatchDraft<Accepted>,
  verdicts: readonly ItemVerdict[],
): ItemResult<Accepted>[] {
  let next = 0;
  return items.map((item): ItemResult<Accepted> => {
    if ('fault' in item) return { kind: 'refused', fault: item.fault };
    if ('earlier' in item) return { kind: 'replayed', accepted: item.earlier };
    const { verdict, response, retryAfter } = verdicts[next++] as ItemVerdict;
    switch (verdict) {
      case 'accepted':
        return { kind: 'accepted', accepted: item.accepted };
      case 'replayed':
        return response == null
          ? { kind: 'refused', fault: refusals.unsettled }
          : { kind: 'replayed', accepted: response as Accepted };
      case 'mismatch':
      case 'suspended':
        return { kind: 'refused', fault: refusals[verdict] };
      case 'rate_limited':
      case 'daily_limit_reached':
      case 'backlog_full':
        return {
          kind: 'refused',
          fault: { ...refusals[verdict], ...(retryAfter == null ? {} : { retryAfter }) },
        };
    }
  });
}

/**
 * The draft of a batch of which the database has refused some messages, each for itself: their fault is ours.
 * @param refused Their places among the items that it was asked to store.
 */
export function withUnstorable<Draft extends BatchDraft<unknown>>(
  draft: Draft,
  refused: ReadonlySet<number>,
): Draft {
  let next = 0;
  const { unstorable: fault } = draft.refusals;
  return {
    ...draft,
    items: draft.items.map((item) => ('accepted' in item && refused.has(next++) ? { fault } : item)),
  };
}

/** How the request as a whole ends. */
export type BatchEnd =
  | { readonly kind: 'answered' }
  /** It is a limit, or the tenant, and none of its items is at fault. */
  | { readonly kind: 'refused'; readonly fault: ItemFault }
  /** Every fault there is, where the batch is strict. */
  | { readonly kind: 'invalid'; readonly details: readonly ErrorDetail[] };

/** Refusals that say nothing against an item. */
const OF_THE_TENANT: readonly ErrorCode[] = [
  'tenant_suspended',
  'rate_limited',
  'daily_limit_reached',
  'backlog_full',
];

/**
 * Decides whether the request is answered item by item. A strict one is where every item was taken. A permissive one is
 * unless nothing was taken and time or the tenant alone is why: clients wait for a 429 as they do with a single message.
 */
export function endOfBatch(mode: BatchMode, results: readonly ItemResult<unknown>[]): BatchEnd {
  const faults = results.flatMap((result) => (result.kind === 'refused' ? [result.fault] : []));
  if (faults.length === 0) return { kind: 'answered' };
  const isTenantsAlone = faults.every(({ code }) => OF_THE_TENANT.includes(code));
  if (mode === 'permissive' && (faults.length < results.length || !isTenantsAlone))
    return { kind: 'answered' };
  if (!isTenantsAlone) return { kind: 'invalid', details: faultDetails(results) };
  const [first, ...others] = faults as [ItemFault, ...ItemFault[]];
  return { kind: 'refused', fault: others.reduce(longer, first) };
}

/** Of refusals by limits the one that takes longest to pass. */
function longer(a: ItemFault, b: ItemFault): ItemFault {
  return (b.retryAfter ?? 0) > (a.retryAfter ?? 0) ? b : a;
}

/** Of one item: each is named, and what is said of one stays small. */
export const ITEM_DETAILS_MAX = 10;

/** The faults of all items, each with its place in the request. */
function faultDetails(results: readonly ItemResult<unknown>[]): ErrorDetail[] {
  return results.flatMap((result, index) => {
    if (result.kind !== 'refused') return [];
    const { code, message, details = [] } = result.fault;
    const place = `messages.${index}`;
    return details.length === 0
      ? [{ field: place, rule: code, message }]
      : details
          .slice(0, ITEM_DETAILS_MAX)
          .map((detail) => ({ ...detail, field: `${place}.${detail.field}` }));
  });
}

/** How large the contents of a batch's items are that travel with it, in bytes: what is in it is locked for as long as that takes. */
const BATCH_INLINE_BYTES_MAX = 1024 * 1024;

/**
 * Which contents are to be stored apart: those that are large by themselves, and the largest of the others until the rest
 * is small.
 * @param bytes Of the content of each item.
 * @param inlineMax What one item may bring along.
 */
export function contentsApart(
  bytes: readonly number[],
  inlineMax: number,
  batchMax: number = BATCH_INLINE_BYTES_MAX,
): ReadonlySet<number> {
  const apart = new Set<number>();
  let left = 0;
  for (const [i, size] of bytes.entries()) {
    if (size > inlineMax) apart.add(i);
    else left += size;
  }
  if (left <= batchMax) return apart;
  const bySize = bytes.map((size, i) => ({ size, i })).toSorted((a, b) => b.size - a.size || a.i - b.i);
  for (const { size, i } of bySize) {
    if (left <= batchMax) break;
    if (apart.has(i)) continue;
    apart.add(i);
    left -= size;
  }
  return apart;
}
