import { expect, test } from 'vitest';
import {
  MATCHES_OF_TENANT,
  matchTenant,
  type FeedEvent,
  type MatchedEndpoint,
  type MatchTenantTerms,
} from './match-tenant.ts';

const endpoint = (id: string, over: Partial<MatchedEndpoint> = {}): MatchedEndpoint => ({
  id,
  tenantId: 't',
  version: 1,
  matchedTo: 0,
  server: 1,
  ready: true,
  eventTypes: ['*'],
  finalOnly: false,
  channels: [],
  tags: [],
  ...over,
});

const events = (...seqs: readonly number[]) => seqs.map((seq) => ({ event: { seq } }) as FeedEvent);

function match(
  endpoints: readonly MatchedEndpoint[],
  read: readonly FeedEvent[],
  over: Partial<MatchTenantTerms> = {},
) {
  const end = read.at(-1)?.event.seq ?? 0;
  const terms = { reachedOf: (one: MatchedEndpoint) => one.matchedTo, match: () => true, busy: [], ...over };
  const { requests, isCut } = matchTenant({ id: 't', endpoints }, { events: read, end, isCut: false }, terms);
  return {
    isCut,
    requests: requests.map(({ endpoint: { id }, upto, passed, isClaimable }) => ({
      id,
      upto,
      passed: passed.map(({ event }) => event.seq),
      isClaimable,
    })),
  };
}

test('an endpoint gets the events after its position that pass its filters, the one furthest behind first', () => {
  const ends = [endpoint('near', { matchedTo: 2 }), endpoint('far', { matchedTo: 1 })];
  expect(match(ends, events(1, 2, 3, 4), { match: (_, { seq }) => seq !== 4 }).requests).toMatchObject([
    { id: 'far', passed: [2, 3], upto: 4 },
    { id: 'near', passed: [3], upto: 4 },
  ]);
});

test('the position that this process knows counts, and never goes back', () => {
  expect(match([endpoint('e')], events(1, 2), { reachedOf: () => 7 }).requests).toMatchObject([
    { passed: [], upto: 7 },
  ]);
});

test.each([
  ['an endpoint that is ready', true, [], true],
  ['one that is not ready', false, [], false],
  ['one that is busy', true, ['e'], false],
  ['one of a busy tenant', true, ['t'], false],
])('whether rows may be claimed at once: of %s', (_, ready, busy, isClaimable) => {
  expect(match([endpoint('e', { ready })], events(1), { busy }).requests).toMatchObject([{ isClaimable }]);
});

test('a turn of a tenant ends after so many matches, and leaves the other endpoints for the next one', () => {
  const all = events(...Array.from({ length: MATCHES_OF_TENANT / 2 }, (_, n) => n + 1));
  const ends = [endpoint('a'), endpoint('b'), endpoint('c')];
  const { requests, isCut } = match(ends, all);
  expect([requests.map(({ id }) => id), isCut]).toEqual([['a', 'b'], true]);
  expect(match(ends.slice(0, 2), all).isCut).toBe(false);
});
