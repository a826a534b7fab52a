import { expect, test } from 'vitest';
import { HOUR_MS } from '#core/domain/text/duration.ts';
import type { AttemptOutcome } from '#core/domain/sending/outcome.ts';
import { settle } from '#core/domain/sending/settle.ts';
import { createLogger, silentLogger } from '#core/platform/telemetry/logger.ts';
import { createWorkerMetrics } from '#core/platform/telemetry/worker-metrics.ts';
import type { ClaimedMessage } from '#core/store/sending/claimed-message.ts';
import type { StoredReceiptCall } from '#core/store/receipts/receipt-reports.ts';
import type { WaitingRow } from '#core/store/sending/lane.ts';
import { createEvents } from './events.ts';

const NOW = Date.parse('2026-01-01T00:00:00Z');

const MESSAGE = {
  action: 'send',
  id: 'm1',
  purgeOn: '2026-02-01',
  seq: 1,
  tenantId: 't1',
  attempt: 1,
  retries: 0,
  ambiguous: 0,
  ambiguousSince: null,
  providerWaits: 0,
  duplicateRisk: false,
  channel: 'sms',
  address: '+15550000001',
  sender: null,
  content: { body: 'Hello' },
  contentBytes: null,
  test: false,
  segments: 1,
  deliveryGuarantee: 'at_most_once',
  waitsSince: new Date(NOW - 2_000),
  expiresAt: new Date(NOW + HOUR_MS),
  traceparent: null,
  requestId: 'r1',
  accountId: 'p1',
  provider: 'twilio',
  accountStatus: 'active',
  accountVersion: 1,
  isHealthStale: false,
  isAccountMoved: false,
  isAccountRefused: false,
  rateLimitPerSecond: null,
  discard: false,
  marketing: false,
  pinned: false,
  sentAccountId: null,
  releasedAt: null,
  isSlowed: false,
  leaseEndsAt: Infinity,
} satisfies ClaimedMessage;

const WAITING: WaitingRow = {
  seq: 1,
  id: 'm1',
  tenantId: 't1',
  tenantStatus: 'active',
  status: 'queued',
  attempt: 0,
  ambiguous: 0,
  waitedMs: 0,
  leftForRate: [],
  channel: 'sms',
  accountId: 'p1',
  accountStatus: 'active',
  rateLimitPerSecond: null,
  pinned: false,
  refusedBy: [],
  test: false,
  isDue: true,
  isExpired: true,
  isLeaseOver: false,
  brake: null,
  suppression: null,
  waitsSince: MESSAGE.waitsSince,
  requestId: 'r1',
  provider: 'twilio',
};

/** Returns the metrics of one attempt whose call took a second, and that was recorded now, this long after its call. */
async function counted(
  outcome: AttemptOutcome,
  message: Partial<ClaimedMessage> = {},
  unblockedMs?: number,
  recordingMs = 0,
): Promise<string[]> {
  const metrics = createWorkerMetrics({ providers: [{ id: 'twilio', channel: 'sms' }] });
  const claimed: ClaimedMessage = { ...MESSAGE, ...message };
  const isCall = outcome.kind !== 'not_started' && claimed.action === 'send';
  const facts = { dedupe: 'none', receiptsExpected: false, expiresAt: claimed.expiresAt.getTime() } as const;
  createEvents(silentLogger, metrics, () => NOW).attemptFinished(
    claimed,
    {
      outcome,
      provider: undefined,
      ...(isCall ? { calledAt: NOW - recordingMs - 1_000, callMs: 1_000 } : {}),
    },
    settle(outcome, { ...claimed, ...facts }, NOW, 0),
    unblockedMs,
  );
  const { text } = await metrics.expose();
  return text
    .split('\n')
    .filter((line) =>
      /^despatch_(dead_letters|time_to_first_attempt|message_end|provider_unreached)/.test(line),
    );
}

const given = (reason: string): string => `despatch_dead_letters_total{reason="${reason}"} 1`;
const BEGUN = 'despatch_time_to_first_attempt_seconds_count 1';
const ENDED = 'despatch_message_end_to_end_seconds_count{channel="sms"} 1';

test('an accepted message counts as ended and as no dead letter', async () => {
  const lines = await counted({ kind: 'accepted', providerMessageId: '1' });
  expect(lines).toContain(ENDED);
  expect(lines).toContain('despatch_time_to_first_attempt_seconds_sum 1');
  expect(lines.filter((line) => line.startsWith('despatch_dead') && !line.endsWith(' 0'))).toEqual([]);
});

test.each<[reason: string, outcome: AttemptOutcome, message?: Partial<ClaimedMessage>]>([
  [
    'invalid_recipient',
    { kind: 'rejected_permanent', failure: { class: 'invalid_recipient', code: 'unknown_recipient' } },
  ],
  [
    'provider_unavailable',
    { kind: 'rejected_transient', failure: { class: 'provider_unavailable', code: 'http_503' } },
    { expiresAt: new Date(NOW) },
  ],
  ['no_answer', { kind: 'ambiguous', failure: { class: 'unknown', code: 'timeout' } }],
  ['adapter_fault', { kind: 'ambiguous', failure: { class: 'unknown', code: 'adapter_fault' } }],
  [
    'worker_lost',
    { kind: 'ambiguous', failure: { class: 'unknown', code: 'worker_lost' } },
    { action: 'lost' },
  ],
])('a message that is given up counts as a dead letter: %s', async (reason, outcome, message) => {
  const lines = await counted(outcome, message);
  expect(lines).toContain(given(reason));
  expect(lines).toContain(ENDED);
});

test('a message that waits for a retry counts neither as a dead letter nor as ended', async () => {
  const lines = await counted({
    kind: 'rejected_transient',
    failure: { class: 'provider_unavailable', code: 'http_503' },
  });
  expect(lines.filter((line) => line.includes('dead_letters') && !line.endsWith(' 0'))).toEqual([]);
  expect(lines).not.toContain(ENDED);
});

test.each<[what: string, outcome: AttemptOutcome, isUnreached: boolean]>([
  [
    'no connection',
    { kind: 'rejected_transient', failure: { class: 'provider_unavailable', code: 'connect_timeout' } },
    true,
  ],
  ['no answer', { kind: 'ambiguous', failure: { class: 'provider_unavailable', code: 'timeout' } }, true],
  [
    'a refused credential',
    {
      kind: 'rejected_transient',
      failure: { class: 'auth_or_config', code: 'authentication_failed', httpStatus: 401 },
    },
    false,
  ],
  [
    'an error of the provider',
    {
      kind: 'rejected_transient',
      failure: { class: 'provider_unavailable', code: 'http_503', httpStatus: 503 },
    },
    false,
  ],
  [
    'an error of a mail server',
    {
      kind: 'rejected_transient',
      failure: { class: 'provider_unavailable', code: 'service_closing', providerCode: '421' },
    },
    false,
  ],
  ['an accepted message', { kind: 'accepted', providerMessageId: '1' }, false],
])('a call counts as unanswered where no server has answered it: %s', async (_what, outcome, isUnreached) => {
  const lines = await counted(outcome);
  expect(lines).toContain(`despatch_provider_unreached_total{provider="twilio"} ${isUnreached ? 1 : 0}`);
});

test('an attempt without a call counts as no unanswered call', async () => {
  const lines = await counted({ kind: 'not_started', reason: 'breaker_open' });
  expect(lines).toContain('despatch_provider_unreached_total{provider="twilio"} 0');
});

test('time to first attempt is measured at the first provider call only', async () => {
  expect(await counted({ kind: 'not_started', reason: 'credentials_unavailable' })).not.toContain(BEGUN);
  const accepted: AttemptOutcome = { kind: 'accepted', providerMessageId: '1' };
  expect(await counted(accepted, { attempt: 3 })).toContain(BEGUN);
  expect(await counted(accepted, { attempt: 2, retries: 1 })).not.toContain(BEGUN);
  expect(await counted(accepted, { attempt: 2, ambiguous: 1 })).not.toContain(BEGUN);
  expect(await counted(accepted, { attempt: 2, providerWaits: 1 })).not.toContain(BEGUN);
});

test('time to first attempt does not include the time of recording the outcome', async () => {
  const accepted: AttemptOutcome = { kind: 'accepted', providerMessageId: '1' };
  const late = await counted(accepted, { waitsSince: new Date(NOW - 62_000) }, undefined, 60_000);
  expect(late).toContain('despatch_time_to_first_attempt_seconds_sum 1');
  const waitsSince = new Date(NOW - HOUR_MS);
  const recovered = await counted(accepted, { waitsSince }, 65_000, 60_000);
  expect(recovered).toContain('despatch_time_to_first_attempt_seconds_sum 4');
  // The account's breaker opened and closed while the outcome was recorded.
  expect(await counted(accepted, { waitsSince }, 5_000, 60_000)).toContain(
    'despatch_time_to_first_attempt_seconds_sum 0',
  );
});

test('time to first attempt starts at a release, and leaves out messages slowed by a brake', async () => {
  const accepted: AttemptOutcome = { kind: 'accepted', providerMessageId: '1' };
  const waitsSince = new Date(NOW - HOUR_MS);
  const released = await counted(accepted, { waitsSince, releasedAt: new Date(NOW - 3_000) });
  expect(released).toContain('despatch_time_to_first_attempt_seconds_sum 2');
  expect(await counted(accepted, { waitsSince, isSlowed: true })).not.toContain(BEGUN);
});

test('time to first attempt leaves out messages whose account has a rate limit, and waits behind an open breaker', async () => {
  const accepted: AttemptOutcome = { kind: 'accepted', providerMessageId: '1' };
  const waitsSince = new Date(NOW - HOUR_MS);
  expect(await counted(accepted, { waitsSince, rateLimitPerSecond: 1 })).not.toContain(BEGUN);
  expect(await counted(accepted, { waitsSince, isHealthStale: true })).not.toContain(BEGUN);
  expect(await counted(accepted, { waitsSince }, 0)).not.toContain(BEGUN);
  const recovered = await counted(accepted, { waitsSince }, 5_000);
  expect(recovered).toContain('despatch_time_to_first_attempt_seconds_sum 4');
  const before = await counted(accepted, {}, HOUR_MS);
  expect(before).toContain('despatch_time_to_first_attempt_seconds_sum 1');
});

test('a resend through another account after a missing receipt counts no first call and no end', async () => {
  const accepted: AttemptOutcome = { kind: 'accepted', providerMessageId: '1' };
  const lines = await counted(accepted, {
    attempt: 2,
    sentAccountId: 'p0',
    waitsSince: new Date(NOW - HOUR_MS),
  });
  expect(lines).not.toContain(BEGUN);
  expect(lines).not.toContain(ENDED);
});

test('each log line about a message contains its tenant, message and request ids', () => {
  const lines: Record<string, unknown>[] = [];
  const destination = {
    write: (line: string) => void lines.push(JSON.parse(line) as Record<string, unknown>),
  };
  const log = createLogger({ level: 'info', component: 'worker', destination });
  const events = createEvents(log, createWorkerMetrics(), () => NOW);
  const accepted: AttemptOutcome = { kind: 'accepted', providerMessageId: '1' };
  events.attemptFinished(MESSAGE, { outcome: accepted, provider: undefined, callMs: 1 }, null);
  events.endedUncalled(WAITING, 'expired');
  events.claimRefused(WAITING, new Error('refused'));
  events.recordLost(MESSAGE, new Error('refused'));
  events.adapterFault('twilio', new Error('a bug'), MESSAGE);
  expect(lines.map(({ msg }) => msg)).toEqual([
    'Attempt finished',
    'Message given up',
    'Message given up: its claim is refused',
    'Recording given up',
    'Provider adapter threw',
  ]);
  for (const line of lines) expect(line).toMatchObject({ tenantId: 't1', messageId: 'm1', requestId: 'r1' });
});

test.each(['expired', 'no_route'] as const)(
  'a message that ends without a call counts as a dead letter: %s',
  async (reason) => {
    const metrics = createWorkerMetrics({ providers: [{ id: 'twilio', channel: 'sms' }] });
    createEvents(silentLogger, metrics, () => NOW).endedUncalled(WAITING, reason);
    const lines = (await metrics.expose()).text.split('\n');
    expect(lines).toContain(given(reason));
    expect(lines).toContain(ENDED);
  },
);

test('a message to a suppressed recipient counts as ended and suppressed, not as a dead letter', async () => {
  const metrics = createWorkerMetrics({ providers: [{ id: 'twilio', channel: 'sms' }] });
  const before = (await metrics.expose()).text.split('\n').filter((line) => line.includes('dead_letters'));
  createEvents(silentLogger, metrics, () => NOW).endedUncalled(WAITING, 'suppressed');
  const lines = (await metrics.expose()).text.split('\n');
  expect(lines.filter((line) => line.includes('dead_letters'))).toEqual(before);
  expect(lines).toContain(ENDED);
  expect(lines).toContain(`despatch_messages_suppressed_total{channel="${WAITING.channel}"} 1`);
});

test('a failover is counted by both providers and its reason', async () => {
  const metrics = createWorkerMetrics();
  createEvents(silentLogger, metrics, () => NOW).failedOver({
    channel: 'sms',
    provider: 'twilio',
    to: 'plivo',
    because: 'provider_unavailable',
  });
  expect((await metrics.expose()).text).toContain(
    'despatch_failovers_total{channel="sms",provider="twilio",to="plivo",class="provider_unavailable"} 1\n',
  );
});

test('awaited receipts are counted by outcome, and accounts without receipts are logged', async () => {
  const metrics = createWorkerMetrics();
  const lines: string[] = [];
  const log = createLogger({
    level: 'info',
    component: 'worker',
    destination: { write: (line) => void lines.push(line) },
  });
  const events = createEvents(log, metrics, () => NOW);
  const settled = { tenantId: 't1', provider: 'twilio', asked: false, calledIn: null, sentIn: null } as const;
  events.receiptsSettled([
    { ...settled, result: 'applied', isEnd: false },
    { ...settled, result: 'applied', isEnd: true },
    { ...settled, result: 'waiting', isEnd: false },
    // An answer to a lookup does not count as a report.
    { ...settled, asked: true, result: 'applied', isEnd: true },
    { ...settled, asked: true, result: 'repeated', isEnd: false },
  ]);
  events.messagesSilent([{ tenantId: 't1', accountId: 'p1', provider: 'twilio', messages: 3 }]);
  const text = await metrics.registry.metrics();
  expect(text).toContain('despatch_receipts_awaited_total{provider="twilio",outcome="heard"} 1');
  expect(text).toContain('despatch_receipts_awaited_total{provider="twilio",outcome="asked"} 1');
  expect(text).toContain('despatch_receipts_awaited_total{provider="twilio",outcome="silent"} 3');
  expect(text).toContain('despatch_receipts_total{provider="twilio",result="asked"} 2');
  expect(text).toContain('despatch_receipts_total{provider="twilio",result="applied"} 2');
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([
    { msg: 'Messages never heard of', tenantId: 't1', providerId: 'p1', provider: 'twilio', messages: 3 },
  ]);
});

test('a refused receipt call is counted when it is first refused, and not when it is read again', async () => {
  const metrics = createWorkerMetrics();
  const events = createEvents(silentLogger, metrics, () => NOW);
  const call = { tenantId: 't1', accountId: 'p1', wasRefused: false } as StoredReceiptCall;
  const refused = { kind: 'forged', reason: 'signature_mismatch' } as const;
  events.receiptCallRead('twilio', refused, call);
  events.receiptCallRead('twilio', refused, { ...call, wasRefused: true });
  events.receiptCallRead('unknown', { kind: 'unreadable' }, { ...call, wasRefused: true });
  const text = await metrics.registry.metrics();
  expect(text).toContain('despatch_receipts_total{provider="twilio",result="forged"} 1');
  expect(text).not.toContain('result="unreadable"} 1');
});
