import type { FailureClass } from '#core/domain/sending/failure.ts';

/** Postmark's bounce types, https://postmarkapp.com/developer/api/bounce-api#bounce-types. */
export type BounceKind =
  /** The mail was not delivered. Without a meaning here, the receiving server's code decides. */
  | {
      readonly kind: 'undelivered';
      readonly isHard: boolean;
      readonly meaning?: { readonly class: FailureClass; readonly code: string };
    }
  | { readonly kind: 'engaged'; readonly engagement: 'complained' | 'unsubscribed' };

export const BOUNCES: ReadonlyMap<string, BounceKind> = new Map([
  ['HardBounce', { kind: 'undelivered', isHard: true }],
  ['SoftBounce', { kind: 'undelivered', isHard: false }],
  // A bounce that Postmark could not classify.
  ['Unknown', { kind: 'undelivered', isHard: false }],
  ['BadEmailAddress', undelivered('invalid_recipient', 'invalid_address')],
  ['Blocked', undelivered('content_rejected', 'rejected_by_policy')],
  // The receiving server's filter refused the mail: no complaint of the recipient. Postmark does not deactivate the address,
  // https://postmarkapp.com/support/article/1065-what-is-the-difference-between-a-spam-complaint-and-a-spam-notification-bounce.
  ['SpamNotification', undelivered('content_rejected', 'rejected_by_policy')],
  ['VirusNotification', undelivered('content_rejected', 'virus_suspected')],
  ['DMARCPolicy', undelivered('sender_rejected', 'sender_unauthenticated')],
  ['ManuallyDeactivated', undelivered('recipient_unavailable', 'recipient_inactive')],
  ['Unconfirmed', undelivered('recipient_unavailable', 'recipient_inactive')],
  ['SMTPApiError', undelivered('content_rejected', 'invalid_content')],
  ['TemplateRenderingFailed', undelivered('content_rejected', 'invalid_content')],
  ['SpamComplaint', { kind: 'engaged', engagement: 'complained' }],
  ['Unsubscribe', { kind: 'engaged', engagement: 'unsubscribed' }],
  // The other types are retried by Postmark (Transient, DnsError) or are automatic replies to a mail that was delivered.
]);

function undelivered(failureClass: FailureClass, code: string): BounceKind {
  return { kind: 'undelivered', isHard: true, meaning: { class: failureClass, code } };
}
