import { expect, test } from 'vitest';
import type { ProviderAccountRow } from '#core/store/accounts/called-accounts.ts';
import type { ProviderContext, Verification } from '#providers/provider.ts';
import type { AccountLookup } from './accounts.ts';
import { verifyRequested, type VerifyDeps } from './verify-requested.ts';

const VALID: Verification = { kind: 'valid' };
const REFUSED: Verification = {
  kind: 'invalid',
  failure: { class: 'auth_or_config', code: 'authentication_failed' },
};

/** Accounts whose checks are requested, in batches as the database returns them. */
function setup(batches: readonly (readonly string[])[], lookups: Record<string, AccountLookup>) {
  const left = [...batches];
  const noted: unknown[] = [];
  const verified: string[] = [];
  const reset: string[] = [];
  const faults: unknown[] = [];
  let isStopping = false;
  const deps: VerifyDeps = {
    store: {
      takeVerifications: async () => [...(left.shift() ?? [])],
      loadAccounts: async (ids) =>
        new Map(
          ids.flatMap((id) => (id === 'deleted' ? [] : [[id, { id, version: 1 } as ProviderAccountRow]])),
        ),
      async noteVerification(...terms) {
        noted.push(terms);
        return null;
      },
    },
    accounts: {
      get: async (id) => lookups[id] ?? { kind: 'unavailable' },
      inForce: () => Promise.reject(new Error('not asked for')),
    },
    breakers: { reset: (id) => void reset.push(id) },
    contextOf: () => ({}) as ProviderContext,
    deadlineMs: 1_000,
    isStopping: () => isStopping,
    onVerified: (id, kind) => void verified.push(`${id} ${kind}`),
    onAdapterFault: (provider, error) => void faults.push([provider, error]),
  };
  const stop = (): void => void (isStopping = true);
  return { deps, left, noted, verified, reset, faults, stop };
}

function ready(id: string, verify: () => Promise<Verification>, version = 2): AccountLookup {
  const account = { id, version, provider: { id: 'twilio', verify }, config: {}, secrets: {} };
  return { kind: 'ready', account } as unknown as AccountLookup;
}

test('checks run until none is due, and each result is stored for the version that was tested', async () => {
  const { deps, noted, verified } = setup([['a', 'b'], ['c']], {
    a: ready('a', async () => VALID, 7),
    b: ready('b', async () => REFUSED),
    c: ready('c', async () => VALID),
  });
  await verifyRequested(deps);
  expect(noted).toEqual([
    ['a', 7, 'valid', null],
    ['b', 2, 'invalid', expect.stringContaining('authentication_failed')],
    ['c', 2, 'valid', null],
  ]);
  expect(verified).toEqual(['a valid', 'b invalid', 'c valid']);
});

test('only a valid credential closes the breaker of its account', async () => {
  const { deps, reset } = setup([['a', 'b']], {
    a: ready('a', async () => VALID),
    b: ready('b', async () => REFUSED),
  });
  await verifyRequested(deps);
  expect(reset).toEqual(['a']);
});

test('an account whose secret is unavailable now, or that was deleted, gets no result', async () => {
  const { deps, noted } = setup([['away', 'deleted']], {});
  await verifyRequested(deps);
  expect(noted).toEqual([]);
});

test('an account that cannot be used is invalid, with the reason', async () => {
  const { deps, noted } = setup([['a']], { a: { kind: 'unusable', code: 'credentials_unreadable' } });
  await verifyRequested(deps);
  expect(noted).toEqual([['a', 1, 'invalid', expect.stringContaining('credentials_unreadable')]]);
});

test('a fault of an adapter is reported, and changes no status', async () => {
  const fault = new Error('a bug');
  const { deps, noted, faults } = setup([['a', 'b']], {
    a: ready('a', () => Promise.reject(fault)),
    b: ready('b', async () => VALID),
  });
  await verifyRequested(deps);
  expect(faults).toEqual([['twilio', fault]]);
  expect(noted).toContainEqual(['a', 2, 'unknown', expect.any(String)]);
  expect(noted).toContainEqual(['b', 2, 'valid', null]);
});

test('no more checks are taken once the worker stops', async () => {
  const { deps, left, stop } = setup([['a'], ['a']], {
    a: ready('a', async () => {
      stop();
      return VALID;
    }),
  });
  await verifyRequested(deps);
  expect(left).toEqual([['a']]);
});
