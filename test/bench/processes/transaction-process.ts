// The api with its accept path replaced by the usual one: a transaction for each request. Checks, tables and wake-ups are the
// same, so the ratio of the two is the gain from gathering requests into one commit.
import { addressKeyRoot } from '#core/domain/recipient/address-key.ts';
import { encodeWakes } from '#core/domain/queue/wake.ts';
import { PRIORITIES } from '#core/domain/message/message-options.ts';
import { createLogger } from '#core/platform/telemetry/logger.ts';
import { createApiMetrics } from '#core/platform/telemetry/api-metrics.ts';
import { openNats } from '#core/platform/nats/nats.ts';
import { openPostgres } from '#core/platform/postgres/postgres.ts';
import { deriveSubkeys } from '#core/domain/storage/subkeys.ts';
import type { AcceptRow, Verdict } from '#core/store/messages/acceptance.ts';
import { directoryStore } from '#core/store/tenants/directory.ts';
import { loadMessageIdKey, reserveMessageSeqs } from '#core/store/messages/message-places.ts';
import { buildApp } from '../../../services/api/app.ts';
import { createAuthentication } from '../../../services/api/auth/authenticate.ts';
import { createTokenVerifier } from '../../../services/api/auth/bearer.ts';
import { createCallerLookup } from '../../../services/api/auth/caller-lookup.ts';
import { apiConfig } from '../../../services/api/config.ts';
import { createRateMemory } from '../../../services/api/caches/rate-memory.ts';
import { createIdLoader } from '#core/domain/storage/id-loader.ts';
import { createFullLimits } from '../../../services/api/messages/full-limits.ts';
import { createMessagePlaces } from '../../../services/api/messages/message-places.ts';
import { sendMessageRoute } from '../../../services/api/messages/send-message.ts';
import { createServiceKeys } from '../../../services/api/auth/service-keys.ts';
import { acceptOne } from '../stack/layout.ts';
import { openBenchPostgres } from './bench-postgres.ts';

const POOL = 10;

const config = apiConfig(process.env);
await using stack = new AsyncDisposableStack();
const log = createLogger({ level: 'error', component: 'bench' });
const metrics = createApiMetrics();
const { sql } = stack.use(openPostgres({ ...config.postgres, applicationName: 'bench-transaction' }));
// The transaction accesses the tables directly, which the services' own roles may not.
const owner = stack.use(openBenchPostgres(POOL));
const nats = stack.use(await openNats({ config: config.nats, log, name: 'bench-transaction' }));
const subkeys = deriveSubkeys(config.access.pepper);
const directory = directoryStore(sql);
const { authenticate } = createAuthentication({
  directory,
  audit: () => {},
  serviceKeys: createServiceKeys({
    findCaller: createCallerLookup(directory),
    touchApiKeys: directory.touchApiKeys,
    hashSubkey: subkeys['key-hash'],
  }),
  verifyToken: createTokenVerifier(config.access.oidc),
  platformAdmins: new Set(),
  refusalBeforeWork: () => undefined,
  sendLimit: () => ({ name: 'sendRequestsPerMinute', value: 60_000 }),
});

async function accept(row: AcceptRow): Promise<Verdict> {
  const verdict = await owner.sql.begin((tx) => acceptOne(tx, row));
  if (verdict.verdict === 'accepted') {
    const { id, seq, tenant_id: tenantId, account_id: accountId } = row;
    const payload = encodeWakes([{ seq, tenantId, accountId }]);
    void nats.publishWakes([{ kind: PRIORITIES[row.priority], id, payload }]);
  }
  return verdict;
}

const app = await buildApp(
  {
    readmit: (caller) => caller,
    authenticate,
    log,
    metrics: { ...metrics, requestAnswered() {} },
    fingerprintKey: subkeys.fingerprint,
    trustProxy: false,
    publicBaseUrl: config.http.publicBaseUrl,
  },
  [
    sendMessageRoute({
      sql,
      replays: { sql, slots: { take: async () => () => {} } },
      places: createMessagePlaces({
        reserve: () => reserveMessageSeqs(sql),
        loadIds: createIdLoader(() => loadMessageIdKey(sql)),
      }),
      batcher: { accept, drain: async () => {} },
      addressKeys: addressKeyRoot(config.receipts.pepper),
      // The contestant never sends content that is stored apart.
      contents: { takeApart: (row) => Promise.resolve(row), forget: () => Promise.resolve() },
      rateMemory: createRateMemory(),
      fullLimits: createFullLimits(),
      uncounted: { note() {}, noteBatch() {} },
      metrics: { ...metrics, replayed: () => metrics.idempotencyReplays.inc() },
    }),
  ],
);
app.get('/readyz', { config: { auth: { kind: 'none' } } }, async () => ({}));
await app.listen({ ...config.http.listen });
await new Promise((resolve) => process.once('SIGTERM', resolve));
await app.close();
