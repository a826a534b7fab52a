import type { KeyObject } from 'node:crypto';
import { AppError, type ErrorDetail } from '#core/domain/fault/app-error.ts';
import {
  contentsApart,
  endOfBatch,
  WHOLE_ITEM,
  itemResults,
  type BatchDraft,
  type BatchMode,
  type ItemResult,
  type ItemVerdict,
} from '#core/domain/message/batch-answer.ts';
import { INLINE_BYTES_MAX } from '#core/domain/message/content.ts';
import { newId } from '#core/domain/storage/ids.ts';
import type { Warning } from '#core/domain/fault/warning.ts';
import type { BatchResult } from '#core/platform/telemetry/api-metrics.ts';
import { earlierAnswer } from '../http/routes/earlier-answer.ts';
import type { KeyCaller } from '../auth/auth.ts';
import { STATUS } from '../http/errors.ts';
import type { SharedPauses } from '../http/admission/shared-pauses.ts';
import { rateHeaders } from '../http/rate-headers.ts';
import { defineRoute } from '../http/routes/define-route.ts';
import type { Answer, RouteContext, RouteModule } from '../http/routes/route.ts';
import { acceptPrepared } from './accept-prepared.ts';
import type { BatchAccepts } from './batch-accepts.ts';
import { AcceptedBatch, fingerprintedBatch, hasOwnKey, SendBatch } from './batch-schema.ts';
import { sendsPerMinute, type Accepted } from './new-message.ts';
import { batchSizeFault, prepareBatch } from './prepare-batch.ts';
import { rejectionReason } from './rejection-reason.ts';
import { rememberedRefusal } from './remembered-refusal.ts';
import { SEND_MESSAGE_EXAMPLES } from './send-message-examples.ts';
import type { AcceptMetrics, SendMessageDeps } from './send-message.ts';
import { SEND_BYTES_MAX } from './send-message-schema.ts';

export type SendBatchDeps = Omit<SendMessageDeps, 'batcher' | 'metrics'> & {
  readonly metrics: AcceptMetrics & {
    readonly batchEnded: (mode: BatchMode, result: BatchResult, messages: number) => void;
  };
  readonly batches: BatchAccepts;
  /** Key of idempotency fingerprints. */
  readonly fingerprintKey: KeyObject;
  readonly pauses: SharedPauses;
};

type Context = RouteContext<{ kind: 'key'; scope: 'messages:send' }, object, object, SendBatch>;
/** The data from which the answer is built; it is stored under the request's idempotency key. */
type Settled = {
  readonly draft: BatchDraft<Accepted> & { readonly warnings?: readonly Warning[] };
  readonly verdicts: readonly ItemVerdict[];
};

/** The verdict of an item for which the database was not asked. */
const UNASKED: ItemVerdict = { verdict: 'accepted' };

/** `POST /v1/messages/batch`: one commit for all messages of the request. */
export function sendBatchRoute(deps: SendBatchDeps): RouteModule {
  const { replays, rateMemory, fullLimits, uncounted, metrics } = deps;

  async function send(context: Context): Promise<Answer<AcceptedBatch>> {
    const { caller, body, idempotency, warnings, request } = context;
    const { mode, messages } = body;
    const isStrict = mode === 'strict';
    // A repeated request gets its first answer, even if limits or settings have changed since.
    const replay = async (): Promise<Answer<AcceptedBatch> | null> => {
      const earlier = await earlierAnswer<Settled>(replays, caller.tenant.id, idempotency);
      return earlier && replayOf(earlier.body);
    };
    const sizeFault = batchSizeFault(caller, messages.length, isStrict);
    if (sizeFault !== undefined) {
      const again = await replay();
      if (again !== null) return again;
      throw sizeFault;
    }
    const countFault = (error: unknown): never => {
      metrics.rejected('dependency', caller.tenant.id);
      throw error;
    };
    const facts = { caller, batchId: newId(), isStrict, request };
    const batch = await prepareBatch(deps, messages, facts).catch(countFault);
    const draft = warnings.list().length === 0 ? batch.draft : { ...batch.draft, warnings: warnings.list() };
    const apart = contentsApart(batch.bytes, INLINE_BYTES_MAX);
    const hasFault = batch.rows.length < messages.length;
    const isAsked = batch.rows.length > 0 && !(isStrict && draft.items.some((item) => 'fault' in item));
    if (hasFault || apart.size > 0) {
      // Looks for a stored answer before it stores large contents a second time.
      const again = await replay();
      if (again !== null) return again;
    }
    if (!isAsked) return answerFor(context, { draft, verdicts: batch.rows.map(() => UNASKED) });
    // Without keys of their own none of the messages is a replay.
    const isNew = batch.rows.every(({ scope }) => scope === null);
    const full = apart.size > 0 && isNew ? fullLimits.find(caller) : undefined;
    if (full !== undefined) return answerFor(context, { draft, verdicts: batch.rows.map(() => full) });
    const asked = { ...batch, draft, apart, strict: isStrict, idempotency };
    const { outcome, draft: known } = await acceptPrepared(deps, caller.tenant.id, asked).catch(countFault);
    if (outcome.kind === 'mismatch') throw new AppError('idempotency_mismatch');
    if (outcome.kind === 'replayed') return replayOf(outcome.stored as Settled);
    if (!isStrict) remember(caller, outcome.verdicts);
    return answerFor(context, { draft: known, verdicts: outcome.verdicts }, outcome.verdicts);
  }

  /**
   * Refuses a batch before its messages are read. With an idempotency key anywhere in it something may be a replay, and one
   * that is too large could not be accepted after the wait that a 429 names.
   */
  function refuseAgain({ caller, body: { mode, messages }, idempotency }: Context): void {
    if (idempotency !== null || messages.some(hasOwnKey)) return;
    if (batchSizeFault(caller, messages.length, mode === 'strict') !== undefined) return;
    const refusal = rememberedRefusal(rateMemory, caller);
    if (refusal === undefined) return;
    for (const _ of messages) metrics.rejected('rate', caller.tenant.id);
    metrics.batchEnded(mode, 'refused', messages.length);
    throw refusal;
  }

  /**
   * Remembers refusals by limits, so that the next request need not query the database. Not those of a strict batch: it used
   * nothing, so the remaining room is left to other requests. For the same reason not that of the day beside that of the backlog.
   */
  function remember(caller: KeyCaller, verdicts: readonly ItemVerdict[]): void {
    const isBacklogFull = verdicts.some(({ verdict }) => verdict === 'backlog_full');
    for (const verdict of ['rate_limited', 'daily_limit_reached', 'backlog_full'] as const) {
      const { retryAfter } = verdicts.find((one) => one.verdict === verdict) ?? {};
      if (retryAfter == null || (verdict === 'daily_limit_reached' && isBacklogFull)) continue;
      if (verdict === 'rate_limited') rateMemory.refused(caller.key.id, sendsPerMinute(caller), retryAfter);
      else fullLimits.note(caller, verdict, retryAfter);
    }
  }

  /** Returns the answer. @throws AppError where the request as a whole is refused. */
  function answerFor(
    { caller, body: { mode } }: Context,
    settled: Settled,
    verdicts: readonly { readonly remaining: number | null }[] = [],
  ): Answer<AcceptedBatch> {
    const results = itemResults(settled.draft, settled.verdicts);
    const end = endOfBatch(mode, results);
    count(caller, results, end.kind === 'answered');
    const limit = sendsPerMinute(caller);
    switch (end.kind) {
      case 'invalid':
        throw new AppError('validation_failed', { details: end.details });
      case 'refused': {
        const { code, message, limit: reached, retryAfter = 1 } = end.fault;
        const headers = rateHeaders({ limit, remaining: 0, passed: false, retryAfter });
        throw new AppError(code, {
          message,
          retryAfter,
          ...(reached === undefined ? {} : { limit: reached }),
          ...(code === 'rate_limited' ? { headers } : {}),
        });
      }
      case 'answered': {
        const left = verdicts.flatMap(({ remaining }) => (remaining === null ? [] : [remaining]));
        const headers =
          left.length === 0
            ? {}
            : rateHeaders({ limit, remaining: Math.min(...left), passed: true, retryAfter: 1 });
        const hasStored = results.some(({ kind }) => kind === 'replayed');
        return { body: bodyOf(settled.draft, results), headers, hasStored };
      }
    }
  }

  function count({ tenant }: KeyCaller, results: readonly ItemResult<Accepted>[], isAnswered: boolean): void {
    for (const result of results) {
      if (result.kind === 'refused') {
        const reason = rejectionReason(result.fault.code) ?? 'validation';
        // The app counts requests that fail validation.
        if (isAnswered || reason !== 'validation') metrics.rejected(reason, tenant.id);
      } else if (isAnswered && result.kind === 'accepted')
        metrics.accepted(result.accepted.channel, tenant.id);
      else if (isAnswered) metrics.replayed();
    }
  }

  /** Runs `work` and counts the result of the batch, and its messages that no limit counted. */
  async function counted(
    context: Context,
    work: (context: Context) => Promise<Answer<AcceptedBatch>>,
  ): Promise<Answer<AcceptedBatch>> {
    const { caller, body } = context;
    const { mode, messages } = body;
    const note = (n: number): void => uncounted.noteBatch(caller.key.id, sendsPerMinute(caller), n);
    try {
      const answer = await work(context);
      const isReplay = answer.replayed === true;
      metrics.batchEnded(mode, isReplay ? 'replayed' : resultOf(answer.body), messages.length);
      note(isReplay ? messages.length : answer.body.items.filter(isUncounted).length);
      return answer;
    } catch (error) {
      const isAnswer = error instanceof AppError && error.code !== 'dependency_unavailable';
      metrics.batchEnded(mode, isAnswer ? 'refused' : 'failed', messages.length);
      // A batch that is too large is refused before its messages are read.
      const isRead = batchSizeFault(caller, messages.length, mode === 'strict') === undefined;
      if (isAnswer && isRead) note(messages.length);
      throw error;
    }
  }

  function replayOf(settled: Settled): Answer<AcceptedBatch> {
    metrics.replayed();
    const { draft, verdicts } = settled;
    const body = bodyOf(draft, itemResults(draft, verdicts));
    const { warnings } = draft;
    return { body: warnings === undefined ? body : { ...body, warnings: [...warnings] }, replayed: true };
  }

  return defineRoute({
    method: 'POST',
    path: '/v1/messages/batch',
    tag: 'Messages',
    operation: 'sendBatch',
    summary: 'Send many messages with one request',
    description:
      'Stores the messages in one commit and returns the result of each, in their order. `permissive`, the default: every message that can be accepted is accepted, and the 202 contains the error of each other message; if none was accepted and only a limit is the reason, the answer is the error of that limit. A message that cannot be stored because of a fault of the service has the error `internal_error`, and the others are stored. `strict`: all or none; with any fault the answer is 400 with every fault, and nothing is stored. Each message counts like a single message against `rateLimitRpm`, the daily limit and `backlogMax`. A request has at most 15 MiB, a message 1 MiB and no attachments.',
    auth: { kind: 'key', scope: 'messages:send' },
    body: SendBatch,
    large: { bytesMax: SEND_BYTES_MAX, exempt: () => SEND_BYTES_MAX },
    idempotent: true,
    fingerprinted: fingerprintedBatch,
    status: 202,
    response: AcceptedBatch,
    errors: ['provider_not_configured', 'url_blocked', 'daily_limit_reached', 'backlog_full'],
    examples: BATCH_EXAMPLES,
    async handler(context) {
      refuseAgain(context);
      return await counted(context, send);
    },
  });
}

const BATCH_EXAMPLES = {
  permissive: {
    summary: 'each message its own result',
    value: {
      messages: [
        { ...SEND_MESSAGE_EXAMPLES.sms.value, idempotencyKey: 'order-1042-shipped' },
        { ...SEND_MESSAGE_EXAMPLES.email.value, externalId: 'order-1043' },
      ],
    },
  },
  strict: {
    summary: 'all or none',
    value: { mode: 'strict', messages: [SEND_MESSAGE_EXAMPLES.sms.value, SEND_MESSAGE_EXAMPLES.push.value] },
  },
};

function bodyOf({ batchId }: BatchDraft<Accepted>, results: readonly ItemResult<Accepted>[]): AcceptedBatch {
  return {
    batchId,
    items: results.map((result, index) => {
      if (result.kind === 'refused') {
        const { details, ...fault } = result.fault;
        const error = { statusCode: STATUS[fault.code], ...fault };
        return {
          index,
          error: details === undefined ? error : { ...error, details: details.map(asInOwnCall) },
        };
      }
      return { index, ...result.accepted, ...(result.kind === 'replayed' ? { replayed: true } : {}) };
    }),
  };
}

/** Returns a fault as a single message gets it: that of the message as a whole is a fault of the request's body. */
function asInOwnCall(detail: ErrorDetail): ErrorDetail {
  return detail.field === WHOLE_ITEM ? { ...detail, field: 'body' } : detail;
}

function resultOf({ items }: AcceptedBatch): BatchResult {
  const refused = items.filter(({ error }) => error !== undefined).length;
  return refused === 0 ? 'whole' : refused < items.length ? 'partial' : 'refused';
}

/** Refused for a reason of the sender's, or a replay. */
function isUncounted({ error, replayed }: AcceptedBatch['items'][number]): boolean {
  return replayed === true || (error !== undefined && error.statusCode < 500);
}
