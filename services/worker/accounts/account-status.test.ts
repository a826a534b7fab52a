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

function setup(health: ReturnType<Breakers['health']> = 'healthy') {
  const stored: string[] = [];
  const note = createAccountStatus({
    store: {
      noteAccountResult: async (accountId, _version, refusal) => {
        stored.push(`${accountId} ${refusal ?? 'authenticated'}`);
        return null;
      },
      noteAccountHealth: async (accountId, to) => void stored.push(`${accountId} ${to}`),
    },
    breakers: { open: () => undefined, health: () => health },
    onMoved: () => undefined,
  });
  const called = (accountId: string, isHealthStale: boolean, outcome = ACCEPTED) =>
    note({ accountId, accountStatus: 'active', accountVersion: 1, isHealthStale } as ClaimedMessage, outcome);
  const succeeded = (accountId: string, isAccountRefused: boolean) =>
    note(
      { accountId, accountStatus: 'active', accountVersion: 1, isAccountRefused } as ClaimedMessage,
      ACCEPTED,
    );
  return { stored, called, succeeded };
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
