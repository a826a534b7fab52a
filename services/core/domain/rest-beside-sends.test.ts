import { expect, test } from 'vitest';
import { restBesideSendsMs, type SideWork } from './rest-beside-sends.ts';

const BATCH: SideWork = { tookMs: 30, isSending: true, waitedMs: 0 };

test.each<[string, Partial<SideWork>, number]>([
  ['nothing is sent: at full speed', { isSending: false }, 0],
  ['messages are on their way: two thirds of the time are theirs', {}, 60],
  ['it has waited, and not for long', { waitedMs: 15_000 }, 60],
  ['it falls behind: less and less', { waitedMs: 37_500 }, 30],
  ['it is a minute late: at full speed', { waitedMs: 60_000 }, 0],
  ['it is later still', { waitedMs: 3_600_000 }, 0],
  ['clocks disagree', { waitedMs: -5_000 }, 60],
  ['a batch took very long', { tookMs: 8_000 }, 1_000],
  ['the clock was set back', { tookMs: -10 }, 0],
])('%s', (_, over, restMs) => {
  expect(restBesideSendsMs({ ...BATCH, ...over })).toBe(restMs);
});
