import { expect, test } from 'vitest';
import type { ClaimedMessage } from '#core/store/sending/claimed-message.ts';
import type { AttemptOutcome } from '#core/domain/sending/outcome.ts';
import { createAccountStatus } from './account-status.ts';
import type { Breakers } from './breakers.ts';

const ACCEPTED: AttemptOutcome = { kind: 'accepted', providerMessageId: 'x' };
const REFUSED: AttemptOutcome = {
  kind: 'rejected_transient',
  failure: { class: 'provider_unavailable', code: 'http_500' },
};

const WRONG_PASSWORD: AttemptOutcome = {
  kind: 'rejected_transient',
  failure: { class: 'auth_or_config', code: 'http_401' },
};

function setup(health: ReturnType<Breakers['health']> = 'healthy') {
  const stored: string[] = [];
  const blocked: string[] = [];
  const told: string[] = [];
  const state = { next: null as string | null };
  const note = createAccountStatus({
    store: {
      noteAccountResult: async (accountId, _version, refusal) => {
        stored.push(`${accountId} ${refusal ?? 'authenticated'}`);
        return state.next;
      },
      noteAccountHealth: async (accountId, to) => void stored.push(`${accountId} ${to}`),
    },
    breakers: { open: (accountId) => blocked.push(accountId), health: () => health },
    onMoved: (accountId, _tenantId, status) => told.push(`${accountId} ${status}`),
  });
  const called = (accountId: string, isHealthStale: boolean, outcome = ACCEPTED) =>
    note({ accountId, accountStatus: 'active', accountVersion: 1, isHealthStale } as ClaimedMessage, outcome);
  const succeeded = (accountId: string, isAccountRefused: boolean) =>
    note(
      { accountId, accountStatus: 'active', accountVersion: 1, isAccountRefused } as ClaimedMessage,
      ACCEPTED,
    );
  const ended = (outcome: AttemptOutcome, accountStatus: ClaimedMessage['accountStatus'] = 'active') =>
    note({ accountId: 'a', accountStatus, accountVersion: 1 } as ClaimedMessage, outcome);
  return { state, stored, blocked, told, called, succeeded, ended };
}

test('a success resets the refusals that another worker stored, once for all messages of a claim', async () => {
  const { stored, succeeded } = setup();
  await succeeded('a', false);
  expect(stored).toEqual([]);
  for (let times = 0; times < 3; times++) await succeeded('a', true);
  await succeeded('b', true);
  expect(stored).toEqual(['a authenticated', 'b authenticated']);
});

test('a success corrects the stale health stored by a stopped worker, once per account', async () => {
  const { stored, called } = setup();
  await called('a', false);
  await called('b', true, REFUSED);
  expect(stored).toEqual([]);
  await called('a', true);
  await called('a', true);
  await called('b', true);
  expect(stored).toEqual(['a healthy', 'b healthy']);
});

test("a success corrects no health while this worker's breaker is open", async () => {
  const { stored, called } = setup('open');
  await called('a', true);
  expect(stored).toEqual([]);
});

test('a success after a refusal is stored, though its message was claimed before the refusal', async () => {
  const { stored, ended } = setup();
  await ended(WRONG_PASSWORD);
  await ended(ACCEPTED);
  await ended(ACCEPTED);
  await ended(WRONG_PASSWORD);
  await ended(ACCEPTED);
  // Otherwise refusals with successes between them would count as consecutive, and make the account invalid.
  expect(stored).toEqual(['a http_401', 'a authenticated', 'a http_401', 'a authenticated']);
});

test('the refusal that makes an account invalid stops its calls here and is told, once', async () => {
  const { state, stored, blocked, told, ended } = setup();
  await ended(WRONG_PASSWORD);
  expect([blocked, told]).toEqual([[], []]);
  state.next = 'invalid';
  await ended(WRONG_PASSWORD);
  expect([blocked, told]).toEqual([['a'], ['a invalid']]);
  // Messages that were claimed later end with the same refusal.
  await ended(WRONG_PASSWORD, 'invalid');
  expect([stored.length, blocked, told]).toEqual([2, ['a'], ['a invalid']]);
});

test.each(['unverified', 'invalid'] as const)(
  'the first success of an account that is %s makes it active, which is told, without blocking it',
  async (status) => {
    const { state, stored, blocked, told, ended } = setup();
    state.next = 'active';
    await ended(ACCEPTED, status);
    expect([stored, blocked, told]).toEqual([['a authenticated'], [], ['a active']]);
  },
);
