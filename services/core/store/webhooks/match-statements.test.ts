import { expect, test } from 'vitest';
import { APPENDED_MAX, matchStatements } from './match-statements.ts';
import type { AppendRequest } from './match-tenant.ts';

const ask = (tenantId: string, matches: number): AppendRequest =>
  ({ endpoint: { tenantId }, passed: Array.from({ length: matches }) }) as unknown as AppendRequest;

test.each<[string, [string, number][], string[]]>([
  ['without requests there is none', [], []],
  [
    'tenants share one up to its size',
    [
      ['a', APPENDED_MAX - 1],
      ['b', 1],
      ['c', 1],
    ],
    ['ab', 'c'],
  ],
  [
    'a tenant is in one, however many matches it has',
    [
      ['a', 1],
      ['b', APPENDED_MAX],
      ['a', APPENDED_MAX],
    ],
    ['aa', 'b'],
  ],
  [
    'requests without matches share one',
    [
      ['a', 0],
      ['b', 0],
    ],
    ['ab'],
  ],
])('of the statements that append matches: %s', (_, requests, statements) => {
  const made = matchStatements(requests.map(([tenantId, matches]) => ask(tenantId, matches)));
  expect(made.map((some) => some.map(({ endpoint }) => endpoint.tenantId).join(''))).toEqual(statements);
});
