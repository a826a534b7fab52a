import { expect, test } from 'vitest';
import type { Outcome } from '#core/domain/sending/outcome.ts';
import type { ClaimedMessage } from '#core/store/sending/claimed-message.ts';
import type { Completion } from '#core/store/sending/completion.ts';
import type { FailoverLabels } from '#core/platform/telemetry/worker-labels.ts';
import { simulatorFor } from '#providers/registry.ts';
import { createRecorder, type RecorderDeps } from './recorder.ts';

/** Returns a message; messages differ by number only. */
const message = (seq: number): ClaimedMessage => ({
  action: 'send',
  id: `m${seq}`,
  purgeOn: '2026-12-28',
  seq,
  tenantId: 't',
  attempt: 1,
  retries: 0,
  ambiguous: 0,
  ambiguousSince: null,
  providerWaits: 0,
  duplicateRisk: false,
  channel: 'sms',
  address: '+15550000001',
  sender: null,
  content: { body: 'x' },
  contentBytes: null,
  test: false,
  segments: 1,
  deliveryGuarantee: 'at_least_once',
  waitsSince: new Date(),
  expiresAt: new Date(Date.now() + 86_400_000),
  traceparent: null,
  requestId: null,
  accountId: 'p',
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
});
const ACCEPTED = { kind: 'accepted', providerMessageId: 'x' } as const;

const delivered = (outcome: Outcome) => ({ outcome, provider: undefined });

function setup(
  complete: (rows: readonly Completion[]) => Promise<Set<number>>,
  facts?: Awaited<ReturnType<RecorderDeps['failoverFacts']>>,
) {
  const failures: number[] = [];
  const failovers: FailoverLabels[] = [];
  const aborted = new AbortController();
  const recorder = createRecorder({
    store: { complete },
    failoverFacts: () => Promise.resolve(facts),
    receiptTimeouts: { of: () => undefined },
    onFailedOver: (failover) => failovers.push(failover),
    random: () => 0,
    onFailure: (_error, rows) => failures.push(rows),
    signal: aborted.signal,
    inFlightMax: 512,
  });
  return { recorder, failures, failovers, aborted };
}

const all = (rows: readonly Completion[]) => new Set(rows.map((row) => row.seq));

test('an attempt is recorded with the duration and end of its provider call, if there was one', async () => {
  const rows: Completion[] = [];
  const b = setup((batch) => Promise.resolve((rows.push(...batch), all(batch))));
  const failure = { class: 'invalid_recipient', code: 'unknown_recipient' } as const;
  await b.recorder.record(message(1), { ...delivered(ACCEPTED), callMs: 12.6 });
  await b.recorder.record(message(2), { ...delivered({ kind: 'rejected_permanent', failure }), callMs: 0.2 });
  await b.recorder.record(message(3), delivered({ kind: 'ambiguous', failure }));
  await b.recorder.record(message(4), {
    outcome: { kind: 'not_started', reason: 'shutdown' },
    provider: undefined,
  });
  expect(rows.map(({ call_end, call_ms }) => [call_end, call_ms])).toEqual([
    ['accepted', 13],
    ['refused', 0],
    [undefined, undefined],
    [undefined, undefined],
  ]);
});

test.each(['key', 'lookup'] as const)(
  'a message that may have been sent through another server of its account ends as unknown, in spite of a %s',
  async (dedupe) => {
    const b = setup((rows) => Promise.resolve(all(rows)));
    const failure = { class: 'unknown', code: 'account_moved' } as const;
    const provider = { ...simulatorFor('sms'), dedupe };
    const since = { ambiguous: 1, ambiguousSince: new Date() };
    const settled = (isAccountMoved: boolean) =>
      b.recorder.record(
        { ...message(1), ...since, isAccountMoved },
        { outcome: { kind: 'ambiguous', failure }, provider },
      );
    expect(await settled(false)).toMatchObject({ status: 'deferred' });
    expect(await settled(true)).toMatchObject({ status: 'unknown', reason: 'ambiguous_attempt' });
  },
);

test('an unavailable database delays a record but loses none', async () => {
  let away = 2;
  const b = setup((rows) => (away-- > 0 ? Promise.reject(new Error('gone')) : Promise.resolve(all(rows))));
  await expect(b.recorder.record(message(1), delivered(ACCEPTED))).resolves.toMatchObject({
    status: 'sent',
  });
  expect(b.failures).toEqual([1]);
});

const BAD = 13;
const refusal = (code: string) => Object.assign(new Error('no'), { name: 'PostgresError', code });

test.each(['22P02', '23514', '54000', '54001', 'XX000'])(
  'a row refused with %s fails alone, once others were stored',
  async (code) => {
    const b = setup((rows) =>
      rows.some((row) => row.seq === BAD) ? Promise.reject(refusal(code)) : Promise.resolve(all(rows)),
    );
    const bad = b.recorder.record(message(BAD), delivered(ACCEPTED)).catch((error: unknown) => error);
    await expect.poll(() => b.failures).toEqual([1]);
    const others = [1, 2, 3].map((seq) => b.recorder.record(message(seq), delivered(ACCEPTED)));
    expect((await Promise.all(others)).map((settlement) => settlement?.status)).toEqual(
      Array.from({ length: 3 }, () => 'sent'),
    );
    expect(await bad).toMatchObject({ code });
  },
);

test('while the database refuses every row of a kind, none is given up: its call would be repeated', async () => {
  let isBroken = true;
  const b = setup((rows) =>
    isBroken && rows.some(({ status }) => status === 'sent')
      ? Promise.reject(refusal('XX002'))
      : Promise.resolve(all(rows)),
  );
  const ended: unknown[] = [];
  const sent = [1, 2].map((seq) =>
    b.recorder.record(message(seq), delivered(ACCEPTED)).finally(() => ended.push(seq)),
  );
  const failure = { class: 'invalid_recipient', code: 'unknown_recipient' } as const;
  for (let tries = 3; tries <= 5; tries++) {
    await b.recorder.record(message(tries), delivered({ kind: 'rejected_permanent', failure }));
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
  expect(ended).toEqual([]);
  isBroken = false;
  expect((await Promise.all(sent)).map((settlement) => settlement?.status)).toEqual(['sent', 'sent']);
});

test('a refused row is given up when the recorder is abandoned', async () => {
  const b = setup(() => Promise.reject(refusal('22P02')));
  const bad = b.recorder.record(message(BAD), delivered(ACCEPTED)).catch((error: unknown) => error);
  await expect.poll(() => b.failures).toEqual([1]);
  b.aborted.abort();
  expect(await bad).toMatchObject({ code: '22P02' });
});

test('a row that is refused because of text from the provider is recorded without that text', async () => {
  const written: Completion[] = [];
  const b = setup((rows) => {
    if (rows.some((row) => JSON.stringify(row).includes('poison'))) return Promise.reject(refusal('54000'));
    written.push(...rows);
    return Promise.resolve(all(rows));
  });
  const failure = { class: 'content_rejected', code: 'refused', providerMessage: 'poison' } as const;
  const settlements = await Promise.all([
    b.recorder.record(message(1), delivered(ACCEPTED)),
    b.recorder.record(message(2), delivered({ kind: 'accepted', providerMessageId: 'poison' })),
    b.recorder.record(message(3), delivered({ kind: 'rejected_permanent', failure })),
  ]);
  expect(settlements.map((settlement) => settlement?.status)).toEqual(['sent', 'sent', 'failed']);
  expect(written.find(({ seq }) => seq === 2)).toMatchObject({ outcome: 'accepted', status: 'sent' });
  expect(written.find(({ seq }) => seq === 3)).toMatchObject({
    outcome: 'rejected_permanent',
    failure: { class: 'content_rejected', code: 'refused' },
    failure_shown: { class: 'content_rejected', code: 'refused', retryable: false },
  });
});

test('a provider message id or sender longer than 512 characters is not recorded', async () => {
  const written: Completion[] = [];
  const b = setup((rows) => {
    written.push(...rows);
    return Promise.resolve(all(rows));
  });
  const named = (name: string) => ({ kind: 'accepted', providerMessageId: name, sender: name }) as const;
  await b.recorder.record(message(1), delivered(named('x'.repeat(512))));
  await b.recorder.record(message(2), delivered(named('x'.repeat(513))));
  expect(written.map((row) => row.provider_message_id?.length)).toEqual([512, undefined]);
  expect(written.map((row) => row.sent_from?.length)).toEqual([512, undefined]);
});

test('an attempt that is no longer current returns null', async () => {
  const b = setup(() => Promise.resolve(new Set()));
  await expect(b.recorder.record(message(1), delivered(ACCEPTED))).resolves.toBeNull();
});

test('aborting ends the retries of a record while the database is unavailable', async () => {
  const b = setup(() => Promise.reject(new Error('gone')));
  const recording = b.recorder.record(message(1), delivered(ACCEPTED));
  await expect.poll(() => b.failures.length).toBeGreaterThan(0);
  b.aborted.abort();
  await expect(recording).rejects.toThrow('gone');
});

const REFUSED = {
  kind: 'rejected_transient',
  failure: { class: 'provider_unavailable', code: 'down' },
} as const;
const FACTS = {
  facts: {
    messageId: 'm1',
    accountId: 'p',
    route: {
      channel: 'sms',
      version: 1,
      strategy: 'priority',
      steps: [
        { accountId: 'p', weight: 1 },
        { accountId: 'q', weight: 1 },
      ],
      failoverOn: ['provider_unavailable'],
    },
    usable: ['p', 'q'],
    tried: [],
  },
  providers: new Map([
    ['p', 'twilio'],
    ['q', 'plivo'],
  ]),
} as const;

test('a failover is reported once it is recorded, with the providers of both accounts', async () => {
  const b = setup((rows) => Promise.resolve(all(rows)), FACTS);
  await b.recorder.record(message(1), delivered(REFUSED));
  expect(b.failovers).toEqual([
    { channel: 'sms', provider: 'twilio', to: 'plivo', because: 'provider_unavailable' },
  ]);
});

test('a failover that another worker recorded first is not reported', async () => {
  const b = setup(() => Promise.resolve(new Set()), FACTS);
  await b.recorder.record(message(1), delivered(REFUSED));
  expect(b.failovers).toEqual([]);
});
