import type { AttemptOutcome } from '#core/domain/sending/outcome.ts';
import type { ClaimedMessage } from '#core/store/sending/claimed-message.ts';
import { simulatorFor } from '#providers/registry.ts';
import type { Account, Accounts } from '../accounts/accounts.ts';

/**
 * Returns the account to send the message through (a simulator for a test message), or the attempt's outcome if there is none.
 */
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
