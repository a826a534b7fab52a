import { expect, test } from 'vitest';
import { batchWaitMs, extendRest, restBesideSendsMs, type SideWork, type Wait } from './rest-beside-sends.ts';

const BATCH: SideWork = { kind: 'events', tookMs: 30, isSending: true, waitedMs: 0 };

test.each<[string, Partial<SideWork>, number]>([
  ['nothing is sent: no rest', { isSending: false }, 0],
  ['messages are being sent: twice the time of the batch', {}, 60],
  ['it is one of receipts: four times its time', { kind: 'receipts' }, 120],
  ['it is 15 s late: the full rest', { waitedMs: 15_000 }, 60],
  ['it is 37.5 s late: half of the rest', { waitedMs: 37_500 }, 30],
  ['it is a minute late: no rest', { waitedMs: 60_000 }, 0],
  ['it is an hour late: no rest', { waitedMs: 3_600_000 }, 0],
  ['clocks disagree: the full rest', { waitedMs: -5_000 }, 60],
  ['a batch took very long: at most a second', { tookMs: 8_000 }, 1_000],
  ['the clock was set back: no rest', { tookMs: -10 }, 0],
])('side work rests after a batch if %s', (_, over, restMs) => {
  expect(restBesideSendsMs({ ...BATCH, ...over })).toBe(restMs);
});

test.each<[string, number, Partial<SideWork>, number]>([
  ['no rest: it begins now', 1_000, {}, 5_060],
  ['a rest: it ends later', 5_100, {}, 5_160],
  ['a long rest: it ends a second from now', 5_990, {}, 6_000],
  ['a rest, after work that needs none: it ends as before', 5_100, { isSending: false }, 5_100],
])('a rest is extended while there is %s', (_, restUntil, over, until) => {
  expect(extendRest(restUntil, 5_000, { ...BATCH, ...over })).toBe(until);
});

const kept = (ms: number): Wait => ({ ms, isPaced: false });
const paced = (ms: number): Wait => ({ ms, isPaced: true });

test.each<[string, readonly Wait[], number]>([
  ['nothing waits: the full rest', [], 60],
  ['one of its items is a minute late: no rest', [kept(0), kept(60_000), paced(0)], 0],
  ['all belong to endpoints with a pace of their own, and are a minute late: no rest', [paced(60_000)], 0],
  ['these are an hour late: no rest', [paced(3_600_000), paced(3_600_000)], 0],
  ['these are 37.5 s late: half of the rest', [paced(37_500), paced(37_500)], 30],
  ['one of them is an hour late: the rest of the others', [kept(0), paced(3_600_000), kept(0)], 40],
  ['none of them is late: the full rest', [paced(0), kept(1_000), paced(15_000)], 60],
])('a batch rests by what its items waited for: %s', (_, waits, restMs) => {
  expect(restBesideSendsMs({ ...BATCH, waitedMs: batchWaitMs(waits) })).toBeCloseTo(restMs);
});
