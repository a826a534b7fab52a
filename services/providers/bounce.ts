import type { Failure, FailureClass } from '#core/domain/sending/failure.ts';
import { redact } from './redact.ts';
import { PROVIDER_CODE_MAX, vendorText } from './vendor-text.ts';

type Meaning = { readonly class: FailureClass; readonly code: string };

/**
 * Codes of a mail whose sender is not proven, by DKIM, SPF, reverse DNS, several of them, or ARC (RFC 7372 and RFC 8617); the last two
 * are Microsoft's for DMARC and for its demands on senders of many mails. Without their first digit.
 */
export const SENDER_UNAUTHENTICATED = [
  '7.20',
  '7.21',
  '7.22',
  '7.23',
  '7.24',
  '7.25',
  '7.26',
  '7.29',
  '7.509',
  '7.515',
] as const;

/**
 * Meanings of a receiving server's refusal, keyed by the enhanced status code without its first digit (RFC 3463 and the
 * IANA registry of these codes). An entry with one number covers every code below it. The other codes about an address (x.1) name
 * neither a fault nor whose address has it: x.1.0 is any other status, x.1.4 an ambiguous address, x.1.9 a relay, and servers make up
 * more.
 */
const BY_DETAIL: Readonly<Record<string, Meaning>> = {
  '1.1': { class: 'invalid_recipient', code: 'unknown_recipient' },
  '1.2': { class: 'invalid_recipient', code: 'unknown_domain' },
  '1.3': { class: 'invalid_recipient', code: 'invalid_address' },
  '1.6': { class: 'invalid_recipient', code: 'recipient_moved' },
  '1.7': { class: 'sender_rejected', code: 'invalid_sender' },
  '1.8': { class: 'sender_rejected', code: 'invalid_sender' },
  '1.10': { class: 'invalid_recipient', code: 'unknown_domain' },
  '2': { class: 'recipient_unavailable', code: 'mailbox_unavailable' },
  '2.1': { class: 'recipient_unavailable', code: 'mailbox_disabled' },
  '2.2': { class: 'recipient_unavailable', code: 'mailbox_full' },
  '2.3': { class: 'content_rejected', code: 'payload_too_large' },
  '3': { class: 'recipient_unavailable', code: 'server_unavailable' },
  '3.4': { class: 'content_rejected', code: 'payload_too_large' },
  '4': { class: 'recipient_unavailable', code: 'server_unreachable' },
  '6': { class: 'content_rejected', code: 'invalid_content' },
  '7': { class: 'content_rejected', code: 'rejected_by_policy' },
  '7.27': { class: 'sender_rejected', code: 'invalid_sender' },
  ...Object.fromEntries(
    SENDER_UNAUTHENTICATED.map((code) => [
      code,
      { class: 'sender_rejected', code: 'sender_unauthenticated' } as const,
    ]),
  ),
};
const ENHANCED = /(?<![\d.])([45])\.(\d{1,3})\.(\d{1,3})(?![\d.]*\d)/;

const HARD: Meaning = { class: 'invalid_recipient', code: 'bounced' };
const SOFT: Meaning = { class: 'recipient_unavailable', code: 'bounced' };

type Bounce = {
  /** The enhanced status code, where the vendor sends it separately from the text. */
  readonly status?: string | undefined;
  /** The text of the receiving server or of the vendor. */
  readonly text?: string | undefined;
  /** Whether the vendor considers the address invalid. Decides when there is no code, or one that says too little. */
  readonly isHard: boolean;
  /** The vendor's own name for the bounce type; default: the status. */
  readonly providerCode?: string | undefined;
  /** The meaning of the vendor's bounce type, where that is more specific than the status. */
  readonly meaning?: Meaning | undefined;
};

/**
 * Returns the failure of an undelivered mail.
 * @param hidden values that the text may repeat and that must not be stored.
 */
export function bounceFailure(bounce: Bounce, hidden: readonly string[]): Failure {
  const { status, text, providerCode = status } = bounce;
  return {
    ...(bounce.meaning ?? meaningOf(bounce)),
    ...(providerCode ? { providerCode: vendorText(redact(providerCode, hidden), PROVIDER_CODE_MAX) } : {}),
    ...(text ? { providerMessage: redact(text, hidden) } : {}),
  };
}

function meaningOf({ status, text, isHard }: Bounce): Meaning {
  const [, digit = '', subject = '', detail = ''] =
    ENHANCED.exec(status ?? '') ?? ENHANCED.exec(text ?? '') ?? [];
  const fallback = isHard ? HARD : SOFT;
  const meaning = BY_DETAIL[`${subject}.${detail}`] ?? BY_DETAIL[subject] ?? fallback;
  // Class 4 is a persistent transient failure (RFC 3463, 2): the same address may work later.
  return digit === '4' && meaning.class === 'invalid_recipient' ? SOFT : meaning;
}
