import { unsubscribeToken, unsubscribeUrl, type UnsubscribeKey } from '#core/domain/unsubscribe-token.ts';
import type { ClaimedMessage } from '#core/store/deliveries.ts';

export type UnsubscribeSettings = {
  readonly publicBaseUrl: string;
  readonly unsubscribeKey: UnsubscribeKey;
};

/**
 * Where the recipient of a message can unsubscribe; undefined for all but mails of the category `marketing`. By https alone, as
 * mail programs call no other address (RFC 8058, section 3.1).
 * @param settings undefined where the service has no address that others know.
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
