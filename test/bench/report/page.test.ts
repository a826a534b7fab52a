import { expect, test } from 'vitest';
import { layoutPage, layoutReport } from './page.ts';
import { sampleResult } from './sample-result.ts';

test('the same result gives the same page', () => {
  expect(layoutPage(sampleResult())).toBe(layoutPage(sampleResult()));
});

test('the page names machine, versions, settings, method and every part that was measured', () => {
  const page = layoutPage(sampleResult());
  const titles = page.split('\n').filter((line) => line.startsWith('#'));
  expect(titles).toEqual([
    '# Performance',
    '## Targets',
    '## How to read it',
    '## Method',
    '## Machine and run',
    '## What bounds the targets',
    '## Accepting',
    '## Draining a backlog',
    '## What a message costs',
    '## What a message costs at parts of the load',
    '## Latency',
    '## Latency beside others',
    '## Beside an earlier state',
    '## Receipts',
    '## Events',
    '## Fairness',
    '## Memory',
    '## Growth in messages',
    '## Growth in tenants',
    '## Beside what else is stored',
    '## Soak',
  ]);
  for (const word of ['2 × Sample CPU', 'Linux 6.1', 'node 24.0.0', 'fsync on', 'seed 7', '2030-01-02']) {
    expect(page).toContain(word);
  }
  expect(page).toMatch(/\n$/);
  expect(page).not.toMatch(/NaN|undefined|\n\n\n/);
});

test('every row of a table has as many cells as its head', () => {
  const tables = layoutPage(sampleResult())
    .split('\n\n')
    .filter((part) => part.startsWith('|'));
  expect(tables.length).toBeGreaterThan(8);
  for (const lines of tables.map((part) => part.trimEnd().split('\n'))) {
    expect(new Set(lines.map((line) => line.split('|').length)).size).toBe(1);
  }
});

test('the page compares an earlier state with the present one, by ratios within a round', () => {
  const page = layoutPage(sampleResult());
  expect(page).toMatch(/sustained per second +\| +1800 \| +3600 \| +2\.00 x \|/);
  expect(page).toMatch(/µs a message, 25 % +\| +689 \| +344 \| +0\.500 x \|/);
  expect(layoutPage({ ...sampleResult(), beside: null })).not.toContain('Beside an earlier');
});

test('the page compares the cost of a message with and without endpoints, by ratios within a round', () => {
  const page = layoutPage(sampleResult());
  expect(page).toMatch(/no endpoint +\| +60\.0 \| .* \| +155 \| +\|/);
  expect(page).toMatch(/all types, paused +\| .* \| +1\.05 x \|/);
  expect(page).toMatch(/all types, called +\| .* \| +2\.00 x \|/);
  expect(page).toContain('1000 a second of each:\np50 40.0 ms, p99 120 ms.');
});

test('the page shows lost, repeated and refused messages', () => {
  const result = sampleResult(1);
  const [round = {}] = result.rounds;
  const accept = { figures: {}, ...round.accept, ledger: { lost: 2, repeated: 1 }, refused: { 503: 4 } };
  const page = layoutPage({ ...result, rounds: [{ ...round, accept }] });
  expect(page).toContain('Messages lost: 2. Sent twice: 1. Refused: accept: 503, 4 times.');
});

test('the report omits parts without measurements, and shows their targets as not measured', () => {
  const result = sampleResult(1);
  const report = layoutReport({
    ...result,
    growth: null,
    soak: null,
    beside: null,
    rounds: [{ floor: result.rounds[0]?.floor ?? { figures: {} } }],
  });
  expect(report).toContain('not measured');
  expect(report).not.toMatch(/\b(?:met|missed)\b|Latency|Growth|Memory\n/);
});
