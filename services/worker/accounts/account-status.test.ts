import { expect, test } from 'vitest';
import type { ClaimedMessage } from '#core/store/claimed-message.ts';
import type { AttemptOutcome } from '#core/domain/outcome.ts';
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
      noteAccountResult: async () => null,
      noteAccountHealth: async (accountId, to) => void stored.push(`${accountId} ${to}`),
    },
    breakers: { open: () => undefined, health: () => health },
    onMoved: () => undefined,
  });
  const called = (accountId: string, isHealthStale: boolean, outcome = ACCEPTED) =>
    note({ accountId, accountStatus: 'active', accountVersion: 1, isHealthStale } as ClaimedMessage, outcome);
  return { stored, called };
}

test('a success corrects the health that an ended worker stored, once for many messages', async () => {
  const { stored, called } = setup();
  await called('a', false);
  await called('b', true, REFUSED);
  expect(stored).toEqual([]);
  await called('a', true);
  await called('a', true);
  await called('b', true);
  expect(stored).toEqual(['a healthy', 'b healthy']);
});

test('a success corrects nothing while the own breaker is open', async () => {
  const { stored, called } = setup('open');
  await called('a', true);
  expect(stored).toEqual([]);
});
