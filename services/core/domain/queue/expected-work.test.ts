import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  COMMON_BUCKET,
  createExpectedWork,
  CREDIT_PER_CALL,
  hasAnySurplus,
  hasSurplus,
  NO_TENANTS,
  TENANT_BUCKET,
} from './expected-work.ts';

const steps = (of: Record<string, number>) => new Map(Object.entries(of));
/** More than a tenant's base credit, and less than the common one. */
const MANY = TENANT_BUCKET.burst + 40;

test('receipts that follow from calls are expected, in any number', () => {
  const work = createExpectedWork();
  for (let second = 0; second < 60; second++) {
    for (let call = 0; call < 700; call++) work.called('a', second * 1_000);
    expect(work.use(steps({ a: 700 * CREDIT_PER_CALL }), second * 1_000)).toBe(0);
    expect(work.withSurplus(second * 1_000)).toEqual(new Set());
  }
});

test('a tenant without calls is allowed a few receipts, and the rest is surplus', () => {
  const work = createExpectedWork();
  expect(work.use(steps({ quiet: 4, loud: MANY }), 0)).toBe(40);
  expect(work.withSurplus(0)).toEqual(new Set(['loud']));
});

test('a tenant has no surplus any more once it has sent enough, or after some time', () => {
  const work = createExpectedWork();
  const hasSurplus = (now: number) => new Set(work.withSurplus(now)).has('a');
  const calls = TENANT_BUCKET.burst / 2 / CREDIT_PER_CALL;
  work.use(steps({ a: MANY }), 0);
  for (let call = 0; call < calls; call++) {
    expect(hasSurplus(0)).toBe(true);
    work.called('a', 0);
  }
  expect(hasSurplus(0)).toBe(false);
  work.use(steps({ a: MANY }), 0);
  const seconds = TENANT_BUCKET.burst / 2 / TENANT_BUCKET.perSecond;
  expect([hasSurplus(seconds * 1_000 - 10), hasSurplus(seconds * 1_000)]).toEqual([true, false]);
});

test('a tenant whose receipts continue without calls keeps its surplus', () => {
  const work = createExpectedWork();
  work.use(steps({ a: MANY }), 0);
  for (let now = 100; now < 10_000; now += 100) {
    work.use(steps({ a: 128 }), now);
    expect(work.withSurplus(now)).toEqual(new Set(['a']));
  }
});

test('many tenants with a few receipts each use up the common credit, and everyone has surplus', () => {
  const work = createExpectedWork();
  const tenants = Object.fromEntries(Array.from({ length: 200 }, (_, n) => [`t${n}`, 4]));
  expect(work.use(steps(tenants), 0)).toBe(800 - COMMON_BUCKET.burst);
  expect(work.withSurplus(0)).toBe('everyone');
  expect(work.withSurplus((COMMON_BUCKET.burst / 2 / COMMON_BUCKET.perSecond) * 1_000)).toEqual(new Set());
});

test('idle tenants are forgotten', () => {
  const work = createExpectedWork();
  work.use(steps({ a: MANY }), 0);
  work.called('b', 300_000);
  work.forgetIdle(599_999);
  expect(work.size).toBe(2);
  work.forgetIdle(600_000);
  expect(work.withSurplus(600_000)).toEqual(new Set());
  expect(work.size).toBe(1);
  work.forgetIdle(899_999);
  expect(work.size).toBe(1);
  work.forgetIdle(900_000);
  expect(work.size).toBe(0);
});

test('the common credit refills over time, also without calls', () => {
  const work = createExpectedWork();
  const tenants = (from: number) =>
    Object.fromEntries(Array.from({ length: 128 }, (_, n) => [`t${from + n}`, 4]));
  expect(work.use(steps(tenants(0)), 0)).toBe(0);
  expect(work.use(steps(tenants(1_000)), 0)).toBe(512);
  expect(work.use(steps(tenants(2_000)), 1_000)).toBe(512 - COMMON_BUCKET.perSecond);
});

test.each([
  ['nobody', NO_TENANTS, false, false],
  ['another tenant', new Set(['b']), false, true],
  ['the tenant', new Set(['a', 'b']), true, true],
  ['everyone', 'everyone', true, true],
] as const)('if %s has surplus', (_name, tenants, hasIt, hasAny) => {
  expect([hasSurplus(tenants, 'a'), hasAnySurplus(tenants)]).toEqual([hasIt, hasAny]);
});

const TENANTS = ['a', 'b', 'c'] as const;
const EVENTS = fc.array(
  fc.record({
    afterMs: fc.nat(5_000),
    called: fc.dictionary(fc.constantFrom(...TENANTS), fc.nat(300)),
    used: fc.dictionary(fc.constantFrom(...TENANTS), fc.integer({ min: 1, max: 2_000 })),
  }),
  { minLength: 1, maxLength: 40 },
);

test('the expected receipts of all tenants never exceed their calls and the common credit', () => {
  fc.assert(
    fc.property(EVENTS, (events) => {
      const work = createExpectedWork();
      let now = 0;
      let calls = 0;
      let expected = 0;
      for (const { afterMs, called, used } of events) {
        now += afterMs;
        for (const [tenant, n] of Object.entries(called))
          for (let call = 0; call < n; call++) {
            work.called(tenant, now);
            calls++;
          }
        const sum = Object.values(used).reduce((all, some) => all + some, 0);
        const surplus = work.use(steps(used), now);
        expect(surplus).toBeGreaterThanOrEqual(0);
        expect(surplus).toBeLessThanOrEqual(sum);
        expected += sum - surplus;
      }
      const most = COMMON_BUCKET.burst + (now / 1_000) * COMMON_BUCKET.perSecond + calls * CREDIT_PER_CALL;
      expect(expected).toBeLessThanOrEqual(most + 1e-6);
    }),
  );
});

test('surplus receipts of a tenant never use the credit of another one', () => {
  fc.assert(
    fc.property(EVENTS, (events) => {
      const work = createExpectedWork();
      let now = 0;
      for (const { afterMs, used } of events) {
        now += afterMs;
        work.use(steps({ ...used, loud: 5_000 }), now);
        // As many as the tenant's calls have earned.
        for (let call = 0; call < 100; call++) work.called('quiet', now);
        const surplus = work.use(steps({ quiet: 100 * CREDIT_PER_CALL }), now);
        expect(surplus).toBe(0);
        const tenants = work.withSurplus(now);
        expect(tenants === 'everyone' || tenants.has('quiet')).toBe(false);
      }
    }),
  );
});

test('a clock that is set back neither adds nor removes credit', () => {
  const work = createExpectedWork();
  expect(work.use(steps({ a: TENANT_BUCKET.burst }), 60_000)).toBe(0);
  expect(work.use(steps({ a: 10 }), 0)).toBe(10);
  expect(work.use(steps({ a: 10 }), 60_000)).toBe(10);
});
