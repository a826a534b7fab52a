// The api with its accept path replaced by what is usually written: a transaction for each request. Checks, tables and
// wake-ups are the same, so the ratio of the two says what gathering requests into one commit is worth.
import { z } from 'zod';
import { encodeWakes } from '#core/domain/wake.ts';
import { LANES } from '#core/platform/broker.ts';
import { createLogger } from '#core/platform/logger.ts';
import { createApiMetrics } from '#core/platform/metrics.ts';
import { openNats } from '#core/platform/nats.ts';
import { openPostgres, type Json, type TransactionSql } from '#core/platform/postgres.ts';
import { secret } from '#core/domain/secret.ts';
import { deriveSubkeys } from '#core/domain/subkeys.ts';
import type { AcceptRow, Verdict } from '#core/store/acceptance.ts';
import { directoryStore } from '#core/store/directory.ts';
import { buildApp } from '../../services/api/app.ts';
import { createAuthentication } from '../../services/api/authenticate.ts';
import { createTokenVerifier } from '../../services/api/bearer.ts';
import { apiConfig } from '../../services/api/config.ts';
import { createFreshCache } from '../../services/api/fresh-cache.ts';
import { sendMessageRoute } from '../../services/api/routes/send-message.ts';
import { createServiceKeys } from '../../services/api/service-keys.ts';

const POOL = 10;

const config = apiConfig(process.env);
// The transaction's statements touch the tables themselves, which no service's own role may.
const ownerUrl = z.string().parse(process.env['OWNER_DATABASE_URL']);
await using stack = new AsyncDisposableStack();
const log = createLogger({ level: 'error', component: 'bench' });
const metrics = createApiMetrics();
const { sql } = stack.use(openPostgres({ ...config.postgres, applicationName: 'bench-transaction' }));
const owner = stack.use(
  openPostgres({
    ...config.postgres,
    url: secret(ownerUrl),
    poolMax: POOL,
    applicationName: 'bench-transaction',
  }),
);
const nats = stack.use(await openNats({ config: config.nats, log, name: 'bench-transaction' }));
const subkeys = deriveSubkeys(config.access.pepper);
const directory = directoryStore(sql);
const { authenticate } = createAuthentication({
  directory,
  serviceKeys: createServiceKeys(directory, subkeys['key-hash']),
  verifyToken: createTokenVerifier(config.access.oidc),
  platformAdmins: new Set(),
});

async function accept(row: AcceptRow): Promise<Verdict> {
  const verdict = await owner.sql.begin((tx) => acceptOne(tx, row));
  if (verdict.verdict === 'accepted') {
    const { id, tenant_id: tenantId } = row;
    const payload = encodeWakes([{ id, purgeOn: verdict.purgeOn, tenantId }]);
    void nats.publishWakes([{ lane: LANES[row.priority], id, payload }]);
  }
  return verdict;
}

const app = await buildApp(
  {
    authenticate,
    log,
    metrics,
    fingerprintKey: subkeys.fingerprint,
    trustProxy: false,
    publicBaseUrl: config.http.publicBaseUrl,
  },
  [
    sendMessageRoute({
      sql,
      batcher: { accept, drain: async () => {} },
      senders: createFreshCache(10_000),
      metrics: { ...metrics, replayed: () => metrics.idempotencyReplays.inc() },
    }),
  ],
);
app.get('/readyz', { config: { auth: { kind: 'none' } } }, async () => ({}));
await app.listen({ ...config.http.listen });
await new Promise((resolve) => process.once('SIGTERM', resolve));
await app.close();

async function acceptOne(tx: TransactionSql, row: AcceptRow): Promise<Verdict> {
  const refuse = (
    verdict: Verdict['verdict'],
    retryAfter: number | null = null,
    response: unknown = null,
  ): Verdict => ({
    verdict,
    response,
    retryAfter,
    remaining: 0,
    purgeOn: '',
  });
  const { scope, fingerprint } = row;
  if (scope !== null && fingerprint !== null) {
    const [taken] = await tx<{ same: boolean; response: unknown }[]>`
      select fingerprint = decode(${fingerprint}, 'hex') as same, response
      from claim_idempotency(array[decode(${scope}, 'hex')], array[${row.tenant_id}::uuid], array[decode(${fingerprint}, 'hex')])`;
    if (taken !== undefined) return refuse(taken.same ? 'replayed' : 'mismatch', null, taken.response);
  }
  const [rate] = await tx<{ passed: boolean; remaining: number; retry_after: number }[]>`
    select * from take_rate(${row.api_key_id}, ${row.rate_per_minute})`;
  if (rate?.passed !== true) return refuse('rate_limited', rate?.retry_after ?? 1);
  const [usage] = await tx`
    update tenant_usage u set day = (now() at time zone 'UTC')::date, accepted = accepted + 1,
      used = case when day = (now() at time zone 'UTC')::date then used else 0 end + 1
    where tenant_id = ${row.tenant_id}
      and (day < (now() at time zone 'UTC')::date or used < ${row.messages_per_day})
      and accepted - coalesce((select finished from tenant_progress p where p.tenant_id = u.tenant_id), 0) < ${row.backlog_max}
    returning 1`;
  if (usage === undefined) return refuse('daily_limit_reached', 1);
  const [stored] = await tx<{ seq: number; purge_on: string }[]>`
    insert into messages (id, purge_on, tenant_id, api_key_id, channel, recipient, address, sender, content, external_id,
      category, priority, test, pinned_provider_id, segments, encoding, delivery_guarantee, content_retention, metadata,
      tags, traceparent, enqueued_at)
    values (${row.id}, purge_day(${row.enqueued_at}, ${row.retention_days}), ${row.tenant_id}, ${row.api_key_id},
      ${row.channel}, ${row.recipient}, ${row.address}, ${row.sender}, ${tx.json(row.content as Json)}, ${row.external_id},
      ${row.category}, ${row.priority}, ${row.test}, ${row.pinned_provider_id}, ${row.segments}, ${row.encoding},
      ${row.delivery_guarantee}, ${row.content_retention}, ${tx.json(row.metadata as Json)}, ${row.tags as string[] | null},
      ${row.traceparent}, ${row.enqueued_at})
    returning seq, purge_on`;
  if (stored === undefined) throw new Error('the message was not stored');
  await tx`insert into message_states (id, purge_on, tenant_id, seq, status, expires_at, updated_at)
    values (${row.id}, ${stored.purge_on}, ${row.tenant_id}, ${stored.seq}, 'queued', ${row.expires_at}, ${row.enqueued_at})`;
  await tx`insert into due (seq, message_id, purge_on, tenant_id, due_at)
    values (${stored.seq}, ${row.id}, ${stored.purge_on}, ${row.tenant_id}, now() + interval '5 seconds')`;
  if (scope !== null) {
    await tx`select store_idempotent_response(array[decode(${scope}, 'hex')], array[202::smallint],
      array[${tx.json(row.response as Json)}::jsonb], array[null::bytea])`;
  }
  return {
    verdict: 'accepted',
    response: row.response,
    retryAfter: null,
    remaining: rate.remaining,
    purgeOn: stored.purge_on,
  };
}
