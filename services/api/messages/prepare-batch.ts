import type { KeyObject } from 'node:crypto';
import type { AddressKeyRoot } from '#core/domain/recipient/address-key.ts';
import { AppError, unavailable, validationFailed } from '#core/domain/fault/app-error.ts';
import {
  ITEM_DETAILS_MAX,
  type BatchDraft,
  type ItemDraft,
  type ItemFault,
  type Refusal,
  type RefusalVerdict,
} from '#core/domain/message/batch-answer.ts';
import { COUNTED_BYTES_MIN } from '#core/domain/message/content.ts';
import { createWarnings } from '#core/domain/fault/warning.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import type { AcceptRow } from '#core/store/messages/acceptance.ts';
import { findEarlierAnswers } from '#core/store/messages/batch-acceptance.ts';
import type { Replays } from '../http/routes/earlier-answer.ts';
import type { KeyCaller } from '../auth/auth.ts';
import { idempotencyClaim, idempotencyKeyOf, type IdempotencyClaim } from '../http/routes/idempotency.ts';
import type { SharedPauses } from '../http/admission/shared-pauses.ts';
import { keyOwnerOf } from '../http/routes/request-claim.ts';
import type { RequestFacts } from '../http/routes/route.ts';
import { tooLarge } from '../http/input/too-large.ts';
import { inSlot } from '../http/admission/shared-slots.ts';
import { accountFor, loadRouting } from './account-for.ts';
import type { BatchItem } from './batch-schema.ts';
import type { MessagePlaces } from './message-places.ts';
import { messageWarnings } from './message-warnings.ts';
import { readItems } from './read-items.ts';
import { newMessageRow, recordKeptFrom, sendRateLimit, type Accepted } from './new-message.ts';
import { countedAgainst, refusalOf } from './refusal-of.ts';
import { namesInstant, messageClock } from './message-clock.ts';

export type PrepareBatchDeps = {
  readonly sql: Sql;
  readonly replays: Replays;
  readonly places: MessagePlaces;
  readonly addressKeys: AddressKeyRoot;
  /** Key of idempotency fingerprints. */
  readonly fingerprintKey: KeyObject;
  readonly pauses: SharedPauses;
};

export type NewRow = AcceptRow & { readonly response: Accepted };

/** A batch before the database is asked to accept it. */
export type PreparedBatch = {
  readonly draft: BatchDraft<Accepted>;
  /** The rows of the items without a fault, in order, and the bytes of their contents. */
  readonly rows: readonly NewRow[];
  readonly bytes: readonly number[];
};

/** Limit of the content of one message in a batch, as JSON, the same as for a single message without attachments. */
const ITEM_BYTES_MAX = 1024 * 1024;

type Ready = { readonly row: NewRow; readonly bytes: number; readonly claim: IdempotencyClaim | null };
/** `claim`: a faulty item with a key may have been accepted earlier, because time and settings change which items are valid. */
type Faulty = { readonly fault: AppError; readonly claim: IdempotencyClaim | null };

type BatchFacts = {
  readonly caller: KeyCaller;
  readonly batchId: string;
  readonly isStrict: boolean;
  readonly request: RequestFacts;
};

/**
 * Parses each item and builds its row, or records its fault.
 * @throws AppError `dependency_unavailable` where the database does not answer a query that this needs.
 */
export async function prepareBatch(
  { sql, replays, places, addressKeys, fingerprintKey, pauses }: PrepareBatchDeps,
  sent: readonly unknown[],
  { caller, batchId, isStrict, request }: BatchFacts,
): Promise<PreparedBatch> {
  const { tenant } = caller;
  // Single messages do not wait for hundreds of others.
  const pause = pauses.of(tenant.id);
  const items = await readItems(sent, pause);
  // One query for all items.
  const named = items.flatMap((item) => ('fault' in item ? [] : [item.message]));
  const clock = await messageClock(sql, caller, named.find(namesInstant) ?? {});
  let routing: ReturnType<typeof loadRouting> | undefined;
  const load = () => (routing ??= loadRouting(sql, tenant.id));

  async function prepare(item: BatchItem): Promise<Ready | Faulty> {
    if ('fault' in item) return { fault: item.fault, claim: null };
    const { message } = item;
    const warnings = createWarnings();
    for (const warning of item.warnings) warnings.add(warning);
    const claim = claimOf(item.sent, message.idempotencyKey);
    const place = await places.take(tenant.limits.retentionDays, recordKeptFrom(message, caller, clock));
    try {
      const { routing, routed } = await accountFor(caller, message, place.id, load);
      for (const warning of messageWarnings(message, routing)) warnings.add(warning);
      const given = { place, routed, clock, warnings, addressKeys, batchId };
      const row = newMessageRow(message, caller, given, claim, request);
      const bytes = Buffer.byteLength(JSON.stringify(row.content));
      if (bytes > ITEM_BYTES_MAX) return { fault: tooLarge(ITEM_BYTES_MAX, '', 'Message'), claim };
      return { row: bytes < COUNTED_BYTES_MIN ? row : { ...row, content_bytes: bytes }, bytes, claim };
    } catch (error) {
      if (error instanceof AppError && error.code !== 'dependency_unavailable')
        return { fault: error, claim };
      throw error;
    }
  }

  /**
   * Returns the item's claim in the scope of `POST /v1/messages`, so that sending the item on its own later is recognised as a
   * repetition.
   */
  function claimOf(sent: unknown, field: string | undefined): IdempotencyClaim | null {
    const key = idempotencyKeyOf(undefined, field);
    if (key === null) return null;
    const owner = keyOwnerOf(caller);
    const { idempotencyKey: _, ...body } = sent as Record<string, unknown>;
    const params = {};
    const route = '/v1/messages';
    const warnings = NO_WARNINGS;
    return idempotencyClaim(fingerprintKey, { owner, method: 'POST', route, key, params, body, warnings });
  }

  const prepared: (Ready | Faulty)[] = [];
  for (const item of items) {
    const resting = pause();
    if (resting !== undefined) await resting;
    prepared.push(await prepare(item));
  }
  // The answer to a faulty strict batch lists every fault, and the database is not asked to accept it.
  const isRefused = isStrict && prepared.some((one) => 'fault' in one);
  const earlier = await earlierDrafts(replays, caller, isRefused ? prepared : prepared.map(onlyFaulty));
  // Where the database is asked, it finds these.
  const unlike = isRefused ? unlikeEarlierItems(prepared) : new Set<number>();
  const drafts = prepared.map((one, i): ItemDraft<Accepted> => {
    const known = earlier.get(i);
    if (known !== undefined) return known;
    if ('fault' in one) return { fault: faultOf(one.fault) };
    if (unlike.has(i)) return { fault: faultOf(new AppError('idempotency_mismatch')) };
    return { accepted: one.row.response };
  });
  const ready = prepared.flatMap((one, i) => {
    const isKnown = 'fault' in one || earlier.has(i) || unlike.has(i);
    return isKnown ? [] : [one];
  });
  return {
    draft: { batchId, items: drafts, refusals: refusalsOf(caller) },
    rows: ready.map(({ row }) => row),
    bytes: ready.map(({ bytes }) => bytes),
  };
}

/** Returns the indexes of items whose idempotency key an earlier item of the batch has with another payload. */
function unlikeEarlierItems(items: readonly (Ready | Faulty)[]): ReadonlySet<number> {
  const first = new Map<string, Buffer>();
  const unlike = new Set<number>();
  for (const [i, { claim }] of items.entries()) {
    if (claim === null) continue;
    const scope = claim.scope.toString('hex');
    const fingerprint = first.get(scope);
    if (fingerprint === undefined) first.set(scope, claim.fingerprint);
    else if (!fingerprint.equals(claim.fingerprint)) unlike.add(i);
  }
  return unlike;
}

function onlyFaulty(one: Ready | Faulty): Faulty | null {
  return 'fault' in one ? one : null;
}

/**
 * Returns what is stored under the items' own keys: the answer to an item that was accepted in an earlier request, or a mismatch.
 * @param items null for an item whose key is not looked up.
 */
async function earlierDrafts(
  { sql, slots }: Replays,
  { tenant }: KeyCaller,
  items: readonly (Ready | Faulty | null)[],
): Promise<ReadonlyMap<number, ItemDraft<Accepted>>> {
  const keyed = items.flatMap((one, i) => (one?.claim == null ? [] : [{ i, claim: one.claim }]));
  if (keyed.length === 0) return new Map();
  const claims = keyed.map(({ claim }) => claim);
  const answers = await inSlot(slots, tenant.id, () => findEarlierAnswers(sql, tenant.id, claims));
  return new Map(
    keyed.flatMap(({ i }, n): [number, ItemDraft<Accepted>][] => {
      const answer = answers[n];
      if (answer === undefined) return [];
      if (!answer.isSame) return [[i, { fault: faultOf(new AppError('idempotency_mismatch')) }]];
      return [[i, { earlier: answer.response as Accepted }]];
    }),
  );
}

const NO_WARNINGS = { add: () => {}, list: () => [] };

/**
 * Returns an error in the form for the answer and for its stored copy. It bounds the details, because a batch may have hundreds
 * of errors.
 */
function faultOf({ code, message, details, limit, retryAfter }: AppError): ItemFault {
  return {
    code,
    message,
    ...(details === undefined ? {} : { details: details.slice(0, ITEM_DETAILS_MAX) }),
    ...(limit === undefined ? {} : { limit }),
    ...(retryAfter === undefined ? {} : { retryAfter }),
  };
}

function refusalsOf(caller: KeyCaller): Readonly<Record<Refusal, ItemFault>> {
  const fault = (verdict: RefusalVerdict) => faultOf(refusalOf(verdict, countedAgainst(caller)));
  return {
    mismatch: fault('mismatch'),
    suspended: fault('suspended'),
    rate_limited: fault('rate_limited'),
    daily_limit_reached: fault('daily_limit_reached'),
    backlog_full: fault('backlog_full'),
    unsettled: faultOf(unavailable()),
    unstorable: faultOf(new AppError('internal_error')),
  };
}

/**
 * Returns the fault of a batch with more messages than one request may have, or, in strict mode, than could ever be accepted at
 * once.
 */
export function batchSizeFault(caller: KeyCaller, count: number, isStrict: boolean): AppError | undefined {
  const sent = { name: 'batchMessagesMax', value: caller.tenant.limits.batchMessagesMax };
  const reached = [sent, ...(isStrict ? [sendRateLimit(caller)] : [])].find(({ value }) => count > value);
  if (reached === undefined) return undefined;
  const message = `Must have at most ${reached.value} messages: limit '${reached.name}'`;
  return validationFailed({ field: 'messages', rule: 'max', message });
}
