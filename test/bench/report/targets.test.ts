import { expect, test } from 'vitest';
import { figureOf } from './result.ts';
import { sampleResult } from './sample-result.ts';
import { targetsOf } from './targets.ts';

const found = () => new Map(targetsOf(sampleResult()).map((row) => [row.name, row]));

test('each target is judged by the median of its rounds', () => {
  expect(Object.fromEntries([...found().values()].map(({ name, verdict }) => [name, verdict]))).toEqual({
    'accepted/s, to bare fastify + zod': 'met',
    'accepted/s, to a transaction per request': 'met',
    'accept to provider call, half load, p50': 'met',
    'accept to provider call, half load, p99': 'met',
    'drain, to a bare undici loop': 'missed',
    'drain, to graphile-worker': 'met',
    'drain, to pg-boss': 'missed',
    'SQL statements per message': 'met',
    'fsyncs per message': 'met',
    'Vault calls per message': 'met',
    'accept p99, most messages to fewest': 'met',
    'accept to provider p99, most messages to fewest': 'met',
    'accept p99, most tenants to fewest': 'missed',
    'accept to provider p99, most tenants to fewest': 'missed',
    "quiet tenants' p99 beside a noisy one, to alone": 'missed',
    'memory per message in flight': 'met',
  });
});

test('a ratio is taken within a round, so that a slow round does not spread it', () => {
  expect(found().get('accepted/s, to bare fastify + zod')?.figure).toEqual({
    median: 0.5625,
    low: 0.5625,
    high: 0.5625,
  });
});

test('what was not measured is neither met nor missed', () => {
  const verdicts = targetsOf({ rounds: [{}], growth: null }).map(({ verdict }) => verdict);
  expect(new Set(verdicts)).toEqual(new Set(['not measured']));
});

test('a figure that a contestant should have and has not is an error, not a gap', () => {
  expect(() => figureOf({ accept: { figures: {} } }, 'accept/ratePerSecond')).toThrow(
    'no figure accept/ratePerSecond',
  );
});
