import { array, assert, boolean, constantFrom, double, integer, property, record } from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  decideHealth,
  FAILING_MS_MAX,
  FAILURES_UNTIL_FAILING,
  RETRY_AFTER_MS_MAX,
  type EndpointCall,
} from './endpoint-health.ts';
import type { EndpointHealth } from './endpoint-state.ts';

const AT = Date.parse('2026-01-01T00:00:00Z');
const FINE: EndpointHealth = {
  status: 'active',
  statusReason: null,
  failures: 0,
  failingSince: null,
  callAt: null,
};
const FAILING: EndpointHealth = { ...FINE, status: 'failing', failures: 4, failingSince: new Date(AT) };
const success: EndpointCall = { at: AT, succeeded: true, status: 200, isProbe: false };
const failure: EndpointCall = { at: AT, succeeded: false, status: 500, isProbe: false };
const random = double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

const afterAll = (calls: readonly EndpointCall[], health = FINE): EndpointHealth =>
  calls.reduce((now, call) => decideHealth(now, call, 0.5), health);
const waitOf = (health: EndpointHealth, at = AT): number => (health.callAt?.getTime() ?? at) - at;

describe('a webhook endpoint', () => {
  test('is unchanged after a success, so that nothing is stored', () => {
    expect(decideHealth(FINE, success, 0)).toBe(FINE);
  });

  test('is failing after the fourth failure in a row, and its calls are delayed from then on', () => {
    const three = afterAll([failure, failure, failure]);
    expect(three).toEqual({ ...FINE, failures: 3, failingSince: new Date(AT) });
    const four = decideHealth(three, { ...failure, at: AT + 1_000 }, 0.5);
    expect(four).toMatchObject({ status: 'failing', failures: 4, failingSince: new Date(AT + 1_000) });
    expect(waitOf(four, AT + 1_000)).toBe(5_000);
  });

  test('is active again after any success', () => {
    expect(afterAll([failure, failure, success])).toEqual(FINE);
    expect(decideHealth({ ...FAILING, callAt: new Date(AT + 60_000) }, success, 0)).toEqual(FINE);
  });

  test('that is failing honours the longest Retry-After of calls that began before', () => {
    const asked = { ...failure, status: 503, retryAfterMs: 600_000 };
    const put = decideHealth({ ...FAILING, callAt: new Date(AT + 5_000) }, asked, 0.5);
    expect(put).toEqual({ ...FAILING, callAt: new Date(AT + 600_000) });
    // The longer wait stays.
    expect(waitOf(decideHealth(put, { ...asked, retryAfterMs: 30_000 }, 0.5))).toBe(600_001);
    expect(waitOf(decideHealth(put, { ...asked, retryAfterMs: 1e12 }, 0.5))).toBe(RETRY_AFTER_MS_MAX);
  });

  test('that has asked for a long wait is not called earlier because another answer asks for a shorter one', () => {
    const asked = { ...failure, status: 503, retryAfterMs: 600_000 };
    expect(waitOf(afterAll([asked, { ...asked, retryAfterMs: 30_000 }]))).toBe(600_000);
  });

  test('that is failing is judged only by its probes', () => {
    expect(decideHealth(FAILING, failure, 0.5)).toBe(FAILING);
    expect(decideHealth(FAILING, { ...failure, isProbe: true }, 0.5)).toMatchObject({ failures: 5 });
  });

  test('that keeps failing is probed with backoff from five seconds to five minutes', () => {
    const probe = { ...failure, isProbe: true };
    const waits: number[] = [];
    for (let health = FAILING, n = 0; n < 8; n++) {
      health = decideHealth(health, probe, 0.5);
      waits.push(waitOf(health) / 1_000);
    }
    expect(waits).toEqual([10, 20, 40, 80, 160, 300, 300, 300]);
    expect(waitOf(decideHealth(FAILING, probe, 0))).toBe(8_000);
    expect(waitOf(decideHealth(FAILING, probe, 0.75))).toBe(11_000);
    assert(
      property(integer({ min: 3, max: 10_000 }), random, (failures, drawn) => {
        const wait = waitOf(decideHealth({ ...FAILING, failures }, probe, drawn));
        expect(wait).toBeGreaterThanOrEqual(5_000);
        expect(wait).toBeLessThanOrEqual(300_000);
      }),
    );
  });

  test('is disabled after five days of failures, and not a moment before', () => {
    const probe = { ...failure, isProbe: true };
    const still = decideHealth(FAILING, { ...probe, at: AT + FAILING_MS_MAX - 1 }, 0);
    expect(still).toMatchObject({ status: 'failing', failingSince: new Date(AT) });
    expect(decideHealth(still, { ...probe, at: AT + FAILING_MS_MAX }, 0)).toMatchObject({
      status: 'disabled',
      statusReason: 'failing',
      callAt: null,
    });
  });

  test('is not disabled by two failures with days between them', () => {
    const one = decideHealth(FINE, failure, 0);
    expect(decideHealth(one, { ...failure, at: AT + 2 * FAILING_MS_MAX }, 0).status).toBe('active');
  });

  test('that failed once long ago is failing for five days of its own before it is disabled', () => {
    const one = decideHealth(FINE, failure, 0);
    const at = AT + 2 * FAILING_MS_MAX;
    const late = { ...failure, at };
    const failing = afterAll([late, late, late], one);
    expect(failing).toMatchObject({ status: 'failing', failures: 4, failingSince: new Date(at) });
    const probe = { ...failure, isProbe: true };
    expect(decideHealth(failing, { ...probe, at: at + FAILING_MS_MAX - 1 }, 0).status).toBe('failing');
    expect(decideHealth(failing, { ...probe, at: at + FAILING_MS_MAX }, 0).status).toBe('disabled');
  });

  test.each([FINE, FAILING])('that answers 410 is disabled at once', (health) => {
    expect(decideHealth(health, { ...failure, status: 410 }, 0)).toMatchObject({
      status: 'disabled',
      statusReason: 'gone',
    });
  });

  test.each(['paused', 'disabled'] as const)('that is %s stays so', (status) => {
    const health: EndpointHealth = { ...FINE, status };
    for (const call of [success, failure, { ...failure, status: 410 }])
      expect(decideHealth(health, call, 0)).toBe(health);
  });

  test('is not called during its Retry-After, up to an hour, even after another call succeeds', () => {
    const asked = decideHealth(FINE, { ...failure, status: 429, retryAfterMs: 30_000 }, 0);
    expect(asked).toMatchObject({ status: 'active', failures: 1 });
    expect(waitOf(asked)).toBe(30_000);
    expect(waitOf(decideHealth(asked, success, 0))).toBe(30_000);
    expect(waitOf(decideHealth(FINE, { ...failure, retryAfterMs: 1e12 }, 0))).toBe(RETRY_AFTER_MS_MAX);
  });

  test('keeps its Retry-After when the failures of calls under way make it failing', () => {
    const asked = { ...failure, status: 503, retryAfterMs: 600_000 };
    const failing = afterAll([asked, failure, failure, failure]);
    expect(failing.status).toBe('failing');
    expect(waitOf(failing)).toBe(600_000);
    // At its probe the wait is over, and `callAt` is the end of the probe's lease.
    const probed = decideHealth(failing, { ...failure, at: AT + 600_000, isProbe: true }, 0.5);
    expect(waitOf(probed, AT + 600_000)).toBe(10_000);
  });

  test('keeps a Retry-After when another answer asked for it during the probe', () => {
    const leaseEnd = AT + 60_000;
    const probing: EndpointHealth = { ...FAILING, callAt: new Date(leaseEnd) };
    const probe = { ...failure, at: AT + 10_000, isProbe: true, probeUntil: new Date(leaseEnd) };
    const asked = decideHealth(probing, { ...failure, status: 503, retryAfterMs: 600_000 }, 0.5);
    expect(waitOf(asked)).toBe(600_000);
    expect(waitOf(decideHealth(asked, probe, 0.5))).toBe(600_000);
    // The probe's own wait is the longer one.
    const longer = { ...probe, status: 503, retryAfterMs: 900_000 };
    expect(waitOf(decideHealth(asked, longer, 0.5), probe.at)).toBe(900_000);
    // A wait that ends before the lease lasts until then.
    const short = decideHealth(probing, { ...failure, status: 503, retryAfterMs: 20_000 }, 0.5);
    expect(waitOf(decideHealth(short, probe, 0.5))).toBe(60_001);
    // Without a probe under way it ends with the endpoint's own wait, if that is longer.
    const waiting: EndpointHealth = { ...FAILING, callAt: new Date(AT + 30_000) };
    expect(waitOf(decideHealth(waiting, { ...failure, status: 503, retryAfterMs: 20_000 }, 0.5))).toBe(
      30_001,
    );
  });
});

test('in any history, an endpoint is failing exactly after four failures in a row', () => {
  const call = record({
    succeeded: boolean(),
    status: constantFrom(null, 200, 302, 404, 500, 503),
    isProbe: boolean(),
  });
  assert(
    property(array(call, { maxLength: 30 }), (calls) => {
      let health = FINE;
      let row = 0;
      for (const one of calls) {
        health = decideHealth(health, { ...one, at: AT }, 0.5);
        row = one.succeeded ? 0 : row + 1;
        expect(health.status).toBe(row >= FAILURES_UNTIL_FAILING ? 'failing' : 'active');
        expect(health.failures).toBeLessThanOrEqual(row);
        expect(health.failures).toBeGreaterThanOrEqual(Math.min(row, FAILURES_UNTIL_FAILING));
        expect(health.failingSince === null).toBe(row === 0);
      }
    }),
  );
});
