import {
  unsubscribeToken,
  unsubscribeUrl,
  type UnsubscribeKey,
} from '#core/domain/recipient/unsubscribe-token.ts';
import type { ClaimedMessage } from '#core/store/sending/claimed-message.ts';

export type UnsubscribeSettings = {
  readonly publicBaseUrl: string;
  readonly unsubscribeKey: UnsubscribeKey;
};

/**
 * Returns where the recipient of a message can unsubscribe; undefined for all messages but mails of the category `marketing`.
 * Only https, because mail programs call no other URL (RFC 8058, section 3.1).
 * @param settings undefined if the service has no public address.
 */
export function unsubscribeUrlFor(
  { marketing, channel, test, tenantId, id, address, waitsSince }: ClaimedMessage,
  settings: UnsubscribeSettings | undefined,
): string | undefined {
  if (!marketing || channel !== 'email' || test) return undefined;
  if (settings === undefined || !settings.publicBaseUrl.startsWith('https://')) return undefined;
  const about = { tenantId, messageId: id, address, issuedAt: waitsSince.getTime() };
  return unsubscribeUrl(settings.publicBaseUrl, unsubscribeToken(settings.unsubscribeKey, about));
}
