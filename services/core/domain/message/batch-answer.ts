import type { ErrorCode, ErrorDetail, NamedLimit } from '../fault/app-error.ts';

export const BATCH_MODES = ['permissive', 'strict'] as const;
export type BatchMode = (typeof BATCH_MODES)[number];

/** Why an item of a batch was refused: an error as the client sees it, as plain data. */
export type ItemFault = {
  readonly code: ErrorCode;
  readonly message: string;
  readonly details?: readonly ErrorDetail[];
  readonly limit?: NamedLimit;
  /** Seconds. */
  readonly retryAfter?: number;
};

/**
 * What is known about an item before the database is asked to store it: the answer that it will get, the answer to the first
 * request with its own idempotency key, or its fault.
 */
export type ItemDraft<Accepted> =
  | { readonly accepted: Accepted }
  | { readonly earlier: Accepted }
  | { readonly fault: ItemFault };

/**
 * Why an item without a validation fault is refused. `unsettled`: the first request with its key has no answer yet; `unstorable`:
 * the database rejects it.
 */
export type Refusal = RefusalVerdict | 'unsettled' | 'unstorable';
export type RefusalVerdict =
  | 'mismatch'
  | 'suspended'
  | 'rate_limited'
  | 'daily_limit_reached'
  | 'backlog_full';

/**
 * Everything that the answer to a batch consists of, except the verdicts. Both are stored, so that a replay gives the same
 * answer.
 */
export type BatchDraft<Accepted> = {
  readonly batchId: string;
  readonly items: readonly ItemDraft<Accepted>[];
  readonly refusals: Readonly<Record<Refusal, ItemFault>>;
};

/** The database's verdict on one item without a fault, in the order of the items. */
export type ItemVerdict = {
  readonly verdict: 'accepted' | 'replayed' | RefusalVerdict;
  readonly response?: unknown;
  readonly retryAfter?: number | null;
};

export type ItemResult<Accepted> =
  | { readonly kind: 'accepted' | 'replayed'; readonly accepted: Accepted }
  | { readonly kind: 'refused'; readonly fault: ItemFault };

/**
 * Returns the result of each item.
 * @param verdicts verdicts on the items that the database was asked to store, in their order.
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
 * Returns the draft of a batch after the database rejected single messages; their fault is an internal one.
 * @param refused indexes of the rejected messages among the items that the database was asked to store.
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

/** The result of the request as a whole. */
export type BatchEnd =
  | { readonly kind: 'answered' }
  /** The reason is a limit or the tenant's status; no item is at fault. */
  | { readonly kind: 'refused'; readonly fault: ItemFault }
  /** All faults of a strict batch. */
  | { readonly kind: 'invalid'; readonly details: readonly ErrorDetail[] };

/** Refusals whose cause is the tenant, not an item. */
const OF_THE_TENANT: readonly ErrorCode[] = [
  'tenant_suspended',
  'rate_limited',
  'daily_limit_reached',
  'backlog_full',
];

/**
 * Decides whether the request is answered item by item. A strict request is, if every item was accepted. A permissive one is,
 * unless nothing was accepted and only limits or the tenant's status are the reason: clients then back off on the 429 as for a
 * single message.
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

/** Returns the refusal with the longer wait. */
function longer(a: ItemFault, b: ItemFault): ItemFault {
  return (b.retryAfter ?? 0) > (a.retryAfter ?? 0) ? b : a;
}

/** Field of a fault of the item as a whole: it differs from every field of a message, one of which is named `body`. */
export const WHOLE_ITEM = '';

/** Maximum number of details per item: every faulty item is listed, but each with a bounded number of details. */
export const ITEM_DETAILS_MAX = 10;

/** Returns the faults of all items, each with its index in the request. */
function faultDetails(results: readonly ItemResult<unknown>[]): ErrorDetail[] {
  return results.flatMap((result, index) => {
    if (result.kind !== 'refused') return [];
    const { code, message, details = [] } = result.fault;
    const place = `messages.${index}`;
    return details.length === 0
      ? [{ field: place, rule: code, message }]
      : details.slice(0, ITEM_DETAILS_MAX).map((detail) => ({
          ...detail,
          field: detail.field === WHOLE_ITEM ? place : `${place}.${detail.field}`,
        }));
  });
}

/** Maximum total size of the contents in a batch's statement, in bytes: the batch holds its locks for as long as they take. */
const BATCH_INLINE_BYTES_MAX = 1024 * 1024;

/**
 * Returns the indexes of the contents to store separately: those above `inlineMax`, and the largest of the others until the rest
 * is at most `batchMax`.
 * @param bytes size of each item's content.
 * @param inlineMax maximum size of one content that is stored with its message.
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
  const bySize = bytes.map((size, i) => ({ size, i })).toSorted((a, b) => b.size - a.size);
  for (const { size, i } of bySize) {
    if (left <= batchMax) break;
    if (apart.has(i)) continue;
    apart.add(i);
    left -= size;
  }
  return apart;
}
