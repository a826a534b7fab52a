import type { AttemptOutcome } from '#core/domain/outcome.ts';
import type { ClaimedMessage } from '#core/store/deliveries.ts';
import { simulatorFor } from '#providers/registry.ts';
import type { Account, Accounts } from '../accounts/accounts.ts';

/** The account that the message goes out through, a simulator for a test message; else how its attempt ends without one. */
export async function findAccount(
  message: ClaimedMessage,
  accounts: Accounts,
): Promise<{ account: Account } | { outcome: AttemptOutcome }> {
  if (message.accountId === null || message.accountVersion === null) {
    return {
      account: {
        id: 'test',
        provider: simulatorFor(message.channel),
        version: 0,
        config: {},
        secrets: {},
        row: null,
      },
    };
  }
  const found = await accounts.get(message.accountId, message.accountVersion);
  switch (found.kind) {
    case 'ready':
      return { account: found.account };
    case 'unavailable':
      return { outcome: { kind: 'not_started', reason: 'credentials_unavailable' } };
    case 'unusable':
      return {
        outcome: { kind: 'rejected_transient', failure: { class: 'auth_or_config', code: found.code } },
      };
  }
}
