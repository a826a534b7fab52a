import type { Outcome } from '#core/domain/sending/outcome.ts';
import type { ClaimedMessage } from '#core/store/sending/claimed-message.ts';
import type { ProviderContext } from '#providers/provider.ts';
import { unreached } from '#providers/unreached.ts';
import type { Account } from '../accounts/accounts.ts';

/**
 * Asks the provider whether it took a message whose last call was ambiguous. Only providers with `dedupe: 'lookup'` are asked:
 * they can be queried by our reference and do not prevent duplicates in another way.
 * @returns undefined if the message is to be sent. If the provider gives no clear answer, the outcome stays ambiguous and nothing
 * is sent.
 */
export async function askBeforeRepeat(
  message: Pick<ClaimedMessage, 'id' | 'ambiguous'>,
  { provider, config, secrets }: Account,
  context: ProviderContext,
): Promise<Outcome | undefined> {
  const { dedupe, lookup } = provider;
  if (dedupe !== 'lookup' || lookup === undefined || message.ambiguous === 0) return undefined;
  const question = { messageId: message.id, providerMessageId: null };
  const answer = await lookup.ask(question, { config, secrets } as never, context);
  switch (answer.kind) {
    case 'found':
      return { kind: 'accepted', providerMessageId: answer.providerMessageId ?? null };
    case 'not_found':
      return undefined;
    case 'forbidden':
      return { kind: 'ambiguous', failure: unreached('lookup_forbidden') };
    case 'unanswered':
      return { kind: 'ambiguous', failure: answer.failure };
    case 'unanswerable':
      return { kind: 'ambiguous', failure: unreached('lookup_refused') };
  }
}
