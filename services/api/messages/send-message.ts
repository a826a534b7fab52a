import type { AddressKeyRoot } from '#core/domain/recipient/address-key.ts';
import { unavailable, type AppError } from '#core/domain/fault/app-error.ts';
import type { Channel } from '#core/domain/message/channel.ts';
import { COUNTED_BYTES_MIN, INLINE_BYTES_MAX } from '#core/domain/message/content.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import type { RejectionReason } from '#core/platform/telemetry/api-metrics.ts';
import type { AcceptRow, Verdict } from '#core/store/messages/acceptance.ts';
import type { AcceptBatcher } from './accept-batcher.ts';
import { accountFor, loadRouting } from './account-for.ts';
import { earlierAnswer, type Replays } from '../http/routes/earlier-answer.ts';
import type { KeyCaller } from '../auth/auth.ts';
import type { FullLimits } from './full-limits.ts';
import type { LargeContents } from './large-contents.ts';
import { rateHeaders } from '../http/rate-headers.ts';
import type { RateMemory } from '../caches/rate-memory.ts';
import type { UncountedSends } from '../auth/uncounted-sends.ts';
import type { MessagePlaces, NewPlace } from './message-places.ts';
import { messageWarnings } from './message-warnings.ts';
import { newMessageRow, recordKeptFrom, sendsPerMinute, type Accepted } from './new-message.ts';
import { countedAgainst, refusalOf } from './refusal-of.ts';
import { rejectionReason } from './rejection-reason.ts';
import { rememberedRefusal } from './remembered-refusal.ts';
import { defineRoute } from '../http/routes/define-route.ts';
import type { Answer, RouteContext, RouteModule } from '../http/routes/route.ts';
import { messageClock, type MessageClock } from './message-clock.ts';
import { AcceptedMessage } from './accepted-message.ts';
import { SEND_MESSAGE_EXAMPLES } from './send-message-examples.ts';
import { attachedLength, SEND_BYTES_MAX, SendMessage } from './send-message-schema.ts';

export type AcceptMetrics = {
  readonly accepted: (channel: Channel, tenantId: TenantId) => void;
  readonly rejected: (reason: RejectionReason, tenantId: TenantId) => void;
  readonly replayed: () => void;
};

export type SendMessageDeps = {
  readonly sql: Sql;
  readonly replays: Replays;
  readonly places: MessagePlaces;
  readonly batcher: AcceptBatcher;
  readonly addressKeys: AddressKeyRoot;
  readonly contents: LargeContents;
  readonly rateMemory: RateMemory;
  readonly fullLimits: FullLimits;
  /** Counts sends that cost work and that no limit counts, such as one that the database refused. */
  readonly uncounted: Pick<UncountedSends, 'note' | 'noteBatch'>;
  readonly metrics: AcceptMetrics;
};

type Context = RouteContext<{ kind: 'key'; scope: 'messages:send' }, object, object, SendMessage>;

/** `POST /v1/messages`. For a warm key its only call to the database is one commit that it shares with other requests. */
export function sendMessageRoute(deps: SendMessageDeps): RouteModule {
  const { sql, replays, places, batcher, addressKeys, contents, metrics } = deps;
  const { rateMemory, fullLimits, uncounted } = deps;

  /** Makes the checks whose result may change with time and settings. A replay is answered even where they fail now. */
  async function prepare(
    { body, caller, idempotency, warnings, request }: Context,
    place: NewPlace,
    clock: MessageClock,
  ) {
    const load = () => loadRouting(sql, caller.tenant.id);
    const { routing, routed } = await accountFor(caller, body, place.id, load);
    for (const warning of messageWarnings(body, routing)) warnings.add(warning);
    const given = { place, routed, clock, warnings, addressKeys };
    return newMessageRow(body, caller, given, idempotency, request);
  }

  function refuseAgain(caller: KeyCaller): void {
    const refusal = rememberedRefusal(rateMemory, caller);
    if (refusal === undefined) return;
    metrics.rejected('rate', caller.tenant.id);
    throw refusal;
  }

  async function send(context: Context): Promise<Answer<Accepted>> {
    const { caller, idempotency, request } = context;
    // A request with an idempotency key may be a replay, to which no limit applies.
    if (idempotency === null) refuseAgain(caller);
    const countFault = (error: unknown): never => {
      metrics.rejected('dependency', caller.tenant.id);
      throw error;
    };
    const replay = async (): Promise<Answer<Accepted> | null> => {
      const earlier = await earlierAnswer<Accepted>(replays, caller.tenant.id, idempotency);
      if (earlier === null) return null;
      metrics.replayed();
      return replayOf(earlier.body);
    };
    const clock = await messageClock(sql, caller, context.body).catch(countFault);
    const keptFrom = recordKeptFrom(context.body, caller, clock);
    const place = await places.take(caller.tenant.limits.retentionDays, keptFrom).catch(countFault);
    let row: Awaited<ReturnType<typeof prepare>>;
    try {
      row = await prepare(context, place, clock);
    } catch (error) {
      const again = await replay();
      if (again === null) throw error;
      return again;
    }
    const isLarge = request.bodyBytes > INLINE_BYTES_MAX;
    if (isLarge) {
      // Looks for a stored answer before it stores the content a second time.
      const again = await replay();
      if (again !== null) return again;
    }
    const accepted = isLarge ? acceptLarge(row, caller) : acceptSmall(row, request.bodyBytes, caller);
    return answerFor(await accepted.catch(countFault), row.response, context);
  }

  /** @param bytes the memory that the waiting request holds: its body, in which only attachments and texts can be large. */
  async function acceptSmall(row: AcceptRow, bytes: number, caller: KeyCaller): Promise<Verdict> {
    const counted = bytes < COUNTED_BYTES_MIN ? row : { ...row, content_bytes: bytes };
    return noted(caller, batcher.accept(counted, ROW_BYTES + bytes));
  }

  /** Stores the content first, apart from the message. */
  async function acceptLarge(row: AcceptRow, caller: KeyCaller): Promise<Verdict> {
    const full = fullLimits.find(caller);
    if (full !== undefined) return { ...full, response: null, remaining: null };
    const light = await contents.takeApart(row);
    const verdict = await noted(caller, batcher.accept(light, ROW_BYTES));
    if (verdict.verdict !== 'accepted') void contents.forget([row]);
    return verdict;
  }

  /** Remembers what the database says of the tenant's limits: that alone, or a refusal from memory would renew itself. */
  async function noted(caller: KeyCaller, asked: Promise<Verdict>): Promise<Verdict> {
    const verdict = await asked;
    fullLimits.note(caller, verdict.verdict, verdict.retryAfter ?? 1);
    return verdict;
  }

  function answerFor(
    verdict: Verdict,
    accepted: Accepted,
    { caller, idempotency }: Context,
  ): Answer<Accepted> {
    const limit = sendsPerMinute(caller);
    const retryAfter = verdict.retryAfter ?? 1;
    const rate = { limit, remaining: verdict.remaining ?? 0, retryAfter };
    const rejected = (refusal: AppError): AppError => {
      const reason = rejectionReason(refusal.code);
      if (reason !== undefined) metrics.rejected(reason, caller.tenant.id);
      return refusal;
    };
    switch (verdict.verdict) {
      case 'accepted':
        metrics.accepted(accepted.channel, caller.tenant.id);
        return {
          body: accepted,
          headers: rateHeaders({ ...rate, passed: true }),
          messageId: accepted.id,
        };
      case 'replayed':
        metrics.replayed();
        // The first request with this key is not settled yet, so the result is unknown.
        if (verdict.response === null) throw unavailable();
        return replayOf(verdict.response as Accepted);
      case 'rate_limited':
        rateMemory.refused(caller.key.id, limit, retryAfter);
        if (idempotency !== null) uncounted.note(caller.key.id);
        throw rejected(
          refusalOf('rate_limited', countedAgainst(caller), {
            retryAfter,
            headers: rateHeaders({ ...rate, passed: false }),
          }),
        );
      case 'mismatch':
      case 'suspended':
      case 'daily_limit_reached':
      case 'backlog_full':
        throw rejected(refusalOf(verdict.verdict, countedAgainst(caller), { retryAfter }));
    }
  }

  return defineRoute({
    method: 'POST',
    path: '/v1/messages',
    tag: 'Messages',
    operation: 'sendMessage',
    summary: 'Send a message',
    description:
      'Returns as soon as the message is stored and queued. `to` is an E.164 number for sms and whatsapp, an email address for email, a device token for push. A request has at most 1 MiB besides the contents of attachments, and 15 MiB with them.',
    auth: { kind: 'key', scope: 'messages:send' },
    body: SendMessage,
    large: { bytesMax: SEND_BYTES_MAX, exempt: attachedLength },
    idempotent: true,
    status: 202,
    response: AcceptedMessage,
    errors: ['provider_not_configured', 'url_blocked', 'daily_limit_reached', 'backlog_full'],
    examples: SEND_MESSAGE_EXAMPLES,
    handler: send,
  });
}

function replayOf(body: Accepted): Answer<Accepted> {
  return { body, replayed: true, messageId: body.id };
}

/** Memory of a waiting request besides its body, in bytes. */
export const ROW_BYTES = 1_024;
