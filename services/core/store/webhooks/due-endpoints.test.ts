import { expect, test } from 'vitest';
import { createDueEndpoints } from './due-endpoints.ts';

const at = (seconds: number) => new Date(seconds * 1_000);
/** Endpoints of one call. */
const MOST = 64;
const ALL = { since: '-infinity', known: [] };

function setup() {
  let clock = 0;
  const due = createDueEndpoints(() => clock);
  /** A round of a single call at the given second of the database's clock; `found` has the earliest due time of each endpoint. */
  function round(second: number, found: Record<string, number | null> = {}) {
    const asked = due.look(null, MOST);
    due.looked({
      seen: Object.keys(found),
      earliest: Object.values(found).map((first) => (first === null ? null : at(first))),
      next: null,
      lookedAt: at(second),
    });
    return asked;
  }
  return { due, round, passMs: (ms: number) => void (clock += ms) };
}

test('the first look covers all endpoints, later ones what became due since the last round', () => {
  const { round } = setup();
  expect(round(1_000)).toEqual(ALL);
  expect(round(1_010)).toEqual({ since: at(995).toISOString(), known: [] });
  expect(round(1_020)).toEqual({ since: at(1_005).toISOString(), known: [] });
});

test('thousands of known endpoints are forgotten by the next look at all endpoints', () => {
  const { round, passMs } = setup();
  const ids = Array.from({ length: 6_000 }, (_, i) => `e${i}`);
  round(1_000, Object.fromEntries(ids.map((id) => [id, 990])));
  expect(round(1_010, { e1: 990 })).toEqual(ALL);
  passMs(1_000);
  expect(round(1_011)).toEqual({
    since: at(1_005).toISOString(),
    known: [{ id: 'e1', due_from: at(990).toISOString() }],
  });
});

test('an interrupted look at all endpoints is started again', () => {
  const { due, round, passMs } = setup();
  const ids = Array.from({ length: 6_000 }, (_, i) => `e${i}`);
  round(1_000, Object.fromEntries(ids.map((id) => [id, 990])));
  due.look(null, MOST);
  due.looked({ seen: ['e1'], earliest: [at(990)], next: 'e2', lookedAt: at(1_010) });
  passMs(1_000);
  expect(round(1_011)).toEqual(ALL);
});

test('an endpoint with due deliveries stays known until none is due', () => {
  const { round } = setup();
  round(1_000, { paused: 400, fresh: 999, later: 1_060, none: null });
  const known = [
    { id: 'fresh', due_from: at(995).toISOString() },
    { id: 'paused', due_from: at(400).toISOString() },
  ];
  expect(round(1_010, { fresh: null })).toMatchObject({ known });
  expect(round(1_020, { paused: Number.NaN })).toMatchObject({ known: known.slice(1) });
  expect(round(1_030)).toMatchObject({ known: [] });
});

test('a round of several calls counts from its first call, and an interrupted one is ignored', () => {
  const { due, round } = setup();
  round(1_000);
  const call = (after: string | null, next: string | null, second: number) => {
    due.look(after, MOST);
    due.looked({ seen: [], earliest: [], next, lookedAt: at(second) });
  };
  call(null, 'a', 1_010);
  call('a', null, 1_050);
  expect(due.look(null, MOST).since).toBe(at(1_005).toISOString());
  call(null, 'a', 1_100);
  expect(due.look(null, MOST).since).toBe(at(1_005).toISOString());
});

test('all endpoints are looked at again at intervals that grow with the duration of the look', () => {
  const { due, round, passMs } = setup();
  round(1_000);
  passMs(4_900);
  expect(round(1_005)).not.toEqual(ALL);
  passMs(200);
  expect(due.look(null, MOST)).toEqual(ALL);
  passMs(1_000);
  due.looked({ seen: [], earliest: [], next: null, lookedAt: at(1_006) });
  passMs(49_000);
  expect(round(1_055)).not.toEqual(ALL);
  passMs(2_000);
  expect(round(1_057)).toEqual(ALL);
});

test('with too many known endpoints, all endpoints are looked at', () => {
  const { round } = setup();
  round(1_000, Object.fromEntries(Array.from({ length: 5_001 }, (_, i) => [`e${i}`, 1])));
  expect(round(1_001)).toEqual(ALL);
});

test('a call gets only the known endpoints within its reach, in the order of their ids', () => {
  const { due, round } = setup();
  round(1_000, { d: 990, a: 990, c: 990, b: 990 });
  const idsOf = (after: string | null) =>
    due.look(after, 1).known.map((one) => (one as { readonly id: string }).id);
  expect(idsOf(null)).toEqual(['a', 'b']);
  due.looked({ seen: ['a'], earliest: [at(990)], next: 'a', lookedAt: at(1_010) });
  expect(idsOf('a')).toEqual(['b', 'c']);
  due.looked({ seen: ['b'], earliest: [null], next: 'b', lookedAt: at(1_010) });
  expect(idsOf('b')).toEqual(['c', 'd']);
  due.looked({ seen: ['c', 'd'], earliest: [at(990), at(990)], next: null, lookedAt: at(1_010) });
  expect(due.look(null, 10).known.map((one) => (one as { readonly id: string }).id)).toEqual(['a', 'c', 'd']);
});
