import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  BATCH_MODES,
  contentsApart,
  endOfBatch,
  ITEM_DETAILS_MAX,
  itemResults,
  withUnstorable,
  type BatchDraft,
  type ItemFault,
  type ItemVerdict,
} from './batch-answer.ts';

const fault = (code: ItemFault['code'], more: Partial<ItemFault> = {}): ItemFault => ({
  code,
  message: code,
  ...more,
});
const REFUSALS: BatchDraft<string>['refusals'] = {
  mismatch: fault('idempotency_mismatch'),
  suspended: fault('tenant_suspended'),
  rate_limited: fault('rate_limited'),
  daily_limit_reached: fault('daily_limit_reached'),
  backlog_full: fault('backlog_full'),
  unsettled: fault('dependency_unavailable'),
  unstorable: fault('internal_error'),
};
const INVALID = fault('validation_failed', {
  details: [{ field: 'to', rule: 'e164', message: 'No number' }],
});

const verdictOf = (verdict: ItemVerdict['verdict'], retryAfter: number | null = null): ItemVerdict => ({
  verdict,
  response: verdict === 'replayed' ? 'before' : null,
  retryAfter,
});

/** An item, and the verdict that the database gives if it is asked about the item. */
const anyItem = fc.oneof(
  fc.record({ fault: fc.constantFrom(INVALID, fault('provider_not_configured')) }),
  fc.record({ earlier: fc.constant('before') }),
  fc.record({
    verdict: fc.constantFrom(
      ...([
        'accepted',
        'replayed',
        'mismatch',
        'suspended',
        'rate_limited',
        'daily_limit_reached',
        'backlog_full',
      ] as const),
    ),
    retryAfter: fc.integer({ min: 1, max: 61 }),
  }),
);

const batches = fc.array(anyItem, { minLength: 1, maxLength: 20 }).map((items) => {
  const asked = items.flatMap((item) =>
    'verdict' in item ? [verdictOf(item.verdict, item.retryAfter)] : [],
  );
  const drafts = items.map((item, i) => ('verdict' in item ? { accepted: `new ${i}` } : item));
  return { items, results: itemResults({ batchId: 'b', items: drafts, refusals: REFUSALS }, asked) };
});

test('an item that the database refuses fails alone, and all others keep their results', () => {
  const drafts = fc.array(
    fc.oneof(
      fc.record({ fault: fc.constant(INVALID) }),
      fc.record({ earlier: fc.constant('before') }),
      fc.record({ accepted: fc.uuid(), isRefused: fc.boolean() }),
    ),
  );
  fc.assert(
    fc.property(drafts, (items) => {
      const asked = items.filter((item) => 'accepted' in item);
      const refused = new Set([...asked.keys()].filter((n) => asked[n]?.isRefused));
      const draft = withUnstorable({ batchId: 'b', items, refusals: REFUSALS }, refused);
      const verdicts = asked.filter(({ isRefused }) => !isRefused).map(() => verdictOf('accepted'));
      const results = itemResults(draft, verdicts);
      expect(results).toEqual(
        items.map((item) => {
          if ('fault' in item) return { kind: 'refused', fault: INVALID };
          if ('earlier' in item) return { kind: 'replayed', accepted: 'before' };
          if (item.isRefused) return { kind: 'refused', fault: REFUSALS.unstorable };
          return { kind: 'accepted', accepted: item.accepted };
        }),
      );
    }),
  );
});

describe('for any batch', () => {
  test('each item has the result of its own verdict', () => {
    fc.assert(
      fc.property(batches, ({ items, results }) => {
        expect(results).toHaveLength(items.length);
        for (const [i, item] of items.entries()) {
          const result = results[i];
          if ('fault' in item) expect(result).toEqual({ kind: 'refused', fault: item.fault });
          else if ('earlier' in item || item.verdict === 'replayed') {
            expect(result).toEqual({ kind: 'replayed', accepted: 'before' });
          } else if (item.verdict === 'accepted')
            expect(result).toEqual({ kind: 'accepted', accepted: `new ${i}` });
          else
            expect(result).toMatchObject({ kind: 'refused', fault: { code: REFUSALS[item.verdict].code } });
        }
      }),
    );
  });

  test('a strict batch is answered only if every item was accepted, and lists each refused one', () => {
    fc.assert(
      fc.property(batches, ({ results }) => {
        const refused = results.flatMap((result, i) => (result.kind === 'refused' ? [i] : []));
        const end = endOfBatch('strict', results);
        expect(end.kind === 'answered').toBe(refused.length === 0);
        if (end.kind !== 'invalid') return;
        const named = new Set(end.details.map(({ field }) => Number(field.split('.')[1])));
        expect([...named]).toEqual(refused);
      }),
    );
  });

  test('a permissive batch with an accepted item is answered, and is never invalid', () => {
    fc.assert(
      fc.property(batches, ({ results }) => {
        const end = endOfBatch('permissive', results);
        expect(end.kind).not.toBe('invalid');
        if (results.some(({ kind }) => kind !== 'refused')) expect(end.kind).toBe('answered');
      }),
    );
  });

  test('a batch that only rate limits refuse has the longest retryAfter, in either mode', () => {
    const limits = fc.array(fc.integer({ min: 1, max: 61 }), { minLength: 1, maxLength: 10 });
    fc.assert(
      fc.property(limits, fc.constantFrom(...BATCH_MODES), (seconds, mode) => {
        const items = seconds.map((s) => ({ accepted: `${s}` }));
        const verdicts = seconds.map((s) => verdictOf('rate_limited', s));
        const end = endOfBatch(mode, itemResults({ batchId: 'b', items, refusals: REFUSALS }, verdicts));
        expect(end).toMatchObject({
          kind: 'refused',
          fault: { code: 'rate_limited', retryAfter: Math.max(...seconds) },
        });
      }),
    );
  });

  test('the stored draft and verdicts give the same answer again', () => {
    fc.assert(
      fc.property(fc.array(anyItem, { minLength: 1, maxLength: 20 }), (items) => {
        const verdicts = items.flatMap((item) =>
          'verdict' in item ? [verdictOf(item.verdict, item.retryAfter)] : [],
        );
        const drafts = items.map((item, i) => ('verdict' in item ? { accepted: `new ${i}` } : item));
        const settled = { draft: { batchId: 'b', items: drafts, refusals: REFUSALS }, verdicts };
        const stored = JSON.parse(JSON.stringify(settled)) as typeof settled;
        expect(itemResults(stored.draft, stored.verdicts)).toEqual(
          itemResults(settled.draft, settled.verdicts),
        );
      }),
    );
  });
});

test('a batch without an accepted item is refused only if all of its items are for a reason of the tenant', () => {
  const limited = { kind: 'refused', fault: REFUSALS.rate_limited } as const;
  const invalid = { kind: 'refused', fault: INVALID } as const;
  expect(endOfBatch('permissive', [limited, invalid])).toEqual({ kind: 'answered' });
  expect(endOfBatch('permissive', [limited, limited])).toMatchObject({ kind: 'refused' });
  expect(endOfBatch('strict', [limited, limited])).toMatchObject({ kind: 'refused' });
  const end = endOfBatch('strict', [limited, invalid]);
  expect(end.kind === 'invalid' && end.details.map(({ field }) => field.split('.')[1])).toEqual(['0', '1']);
});

test('a replayed item without a stored response is refused as unsettled', () => {
  const draft = { batchId: 'b', items: [{ accepted: 'new' }], refusals: REFUSALS };
  const results = itemResults(draft, [{ verdict: 'replayed', response: null }]);
  expect(results).toEqual([{ kind: 'refused', fault: REFUSALS.unsettled }]);
});

test('the answer lists at most ITEM_DETAILS_MAX faults of one message', () => {
  const details = Array.from({ length: 100 }, (_, i) => ({
    field: `f${i}`,
    rule: 'max',
    message: 'Too much',
  }));
  const results = [{ kind: 'refused', fault: fault('validation_failed', { details }) }] as const;
  const end = endOfBatch('strict', results);
  expect(end.kind === 'invalid' && end.details).toHaveLength(ITEM_DETAILS_MAX);
});

describe('contents', () => {
  test('stay inline within the limits per item and in total, and only the rest is stored apart', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 60 }), { maxLength: 40 }), (bytes) => {
        const apart = contentsApart(bytes, 40, 200);
        const inline = bytes.filter((_, i) => !apart.has(i));
        const sum = inline.reduce((all, size) => all + size, 0);
        expect(sum).toBeLessThanOrEqual(200);
        expect(inline.every((size) => size <= 40)).toBe(true);
        const moved = bytes.filter((size, i) => apart.has(i) && size <= 40);
        if (moved.length > 0) expect(sum + Math.min(...moved)).toBeGreaterThan(200);
      }),
    );
  });

  test('are stored apart from the largest on, the earlier one first, until the rest fits', () => {
    expect([...contentsApart([10, 30, 41, 20, 30], 40, 90)]).toEqual([2]);
    expect([...contentsApart([10, 30, 41, 20, 30], 40, 89)]).toEqual([2, 1]);
    expect([...contentsApart([10, 30, 41, 20, 30], 40, 59)]).toEqual([2, 1, 4]);
    expect([...contentsApart([10, 30, 41, 20, 30], 40, 0)]).toEqual([2, 1, 4, 3, 0]);
  });
});
