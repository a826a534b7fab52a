import { expect, test } from 'vitest';
import { figureOf } from './result.ts';
import { sampleResult } from './sample-result.ts';
import { targetsOf } from './targets.ts';

const found = () => new Map(targetsOf(sampleResult()).map((row) => [row.name, row]));

test('each target is judged by the median of its rounds', () => {
  expect(Object.fromEntries([...found().values()].map(({ name, verdict }) => [name, verdict]))).toEqual({
    'processor time per message, saturated': 'met',
    'processor time per message, 25 % load': 'met',
    'processor time per message, 25 % load, to the bare pipeline': 'met',
    'bytes of WAL per message': 'missed',
    'SQL statements per message': 'met',
    'fsyncs per message': 'met',
    'Vault calls per message': 'met',
    'sustained, accepted and called': 'met',
    'accepted/s, to bare fastify + zod': 'missed',
    'accepted/s, to a transaction per request': 'met',
    'accepted/s in batches of 500, to single requests': 'met',
    'drain, to a bare undici loop': 'missed',
    'drain, to graphile-worker': 'met',
    'drain, to pg-boss': 'met',
    'accept to provider call, 25 % load, p50': 'met',
    'accept to provider call, 25 % load, p50, to the bare pipeline': 'missed',
    'accept to provider call, 25 % load, p50, to the quicker of both peers': 'met',
    'accept to provider call, 25 % load, p99': 'met',
    'accept to provider call, 25 % load, p99, to the bare pipeline': 'met',
    'accept to provider call, 25 % load, p99, to the quicker of both peers': 'met',
    'accept p99, most messages to fewest': 'met',
    'accept to provider p99, most messages to fewest': 'met',
    'first page p99, most messages to fewest': 'met',
    'deep page p99, most messages to fewest': 'met',
    'accept p99, most tenants to fewest': 'missed',
    'accept to provider p99, most tenants to fewest': 'missed',
    'accept p99, beside messages that are scheduled, to without': 'met',
    'accept to provider p99, beside messages that are scheduled, to without': 'met',
    'processor time per message, beside messages that are scheduled, to without': 'met',
    'accept p99, beside suppressed recipients, to without': 'met',
    'accept to provider p99, beside suppressed recipients, to without': 'met',
    'processor time per message, beside suppressed recipients, to without': 'missed',
    'accept p99, with routes of 20 steps, to without': 'missed',
    'accept to provider p99, with routes of 20 steps, to without': 'missed',
    'processor time per message, with routes of 20 steps, to without': 'met',
    'receipts taken in/s, to bare fastify': 'missed',
    'receipts applied/s, to the drain': 'met',
    "others' accept p99 beside a storm of receipts, to without it": 'met',
    "others' accept to provider p99 beside it, to without it": 'missed',
    'events told/s, to a bare undici loop': 'met',
    'processor time per message with its events matched, to without an endpoint': 'met',
    "endpoints' p99 beside a dead one, to without it": 'missed',
    "quiet tenants' p99 beside a noisy one, to the same load spread evenly": 'missed',
    'memory per message in flight': 'met',
    'soak: messages/s, last ten minutes to first': 'met',
    'soak: keeps up with, after to before': 'met',
    'soak: call p99, first ten minutes to last': 'met',
    'soak: memory of the process that grew most, last third to second': 'missed',
  });
});

test('a ratio is computed within a round, so that a slow round does not spread it', () => {
  expect(found().get('accepted/s, to bare fastify + zod')?.figure).toEqual({
    median: 0.5625,
    low: 0.5625,
    high: 0.5625,
  });
});

test("processor time per message counts the contestant's processes, without load and stand-in", () => {
  // At 25 % twice the 155 microseconds of api, worker, Postgres and NATS, and a tenth less speed in the middle round.
  expect(found().get('processor time per message, 25 % load')?.figure.median).toBeCloseTo(310 / 0.9);
  expect(
    found().get('processor time per message, 25 % load, to the bare pipeline')?.figure.median,
  ).toBeCloseTo(2);
});

test('a target without a measurement is neither met nor missed', () => {
  const verdicts = targetsOf({ rounds: [{}], growth: null, soak: null }).map(({ verdict }) => verdict);
  expect(new Set(verdicts)).toEqual(new Set(['not measured']));
});

test('a missing figure of a contestant is an error', () => {
  expect(() => figureOf({ accept: { figures: {} } }, 'accept/ratePerSecond')).toThrow(
    'no figure accept/ratePerSecond',
  );
});
