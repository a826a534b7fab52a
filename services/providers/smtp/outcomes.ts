import { SENDER_UNAUTHENTICATED } from '../bounce.ts';
import {
  accountFault,
  codes,
  permanent,
  transient,
  type CodeTable,
  type ErrorMeaning,
} from '../classify-error.ts';
import { accountBlamed, DAILY_CAP, relayDenied, senderBlamed } from './meaning-of-text.ts';

/** The stage of the session that a reply ended. */
export type Stage = 'greeting' | 'auth' | 'sender' | 'recipient' | 'content';

/** Reply codes with the same meaning at every stage, RFC 5321 section 4.2.3 and RFC 4954. */
export const REPLY_CODES: CodeTable = {
  421: transient('provider_unavailable', 'service_closing'),
  451: transient('provider_unavailable', 'provider_error'),
  452: transient('provider_unavailable', 'insufficient_storage'),
  454: transient('provider_unavailable', 'temporarily_unavailable'),
  530: accountFault('authentication_required'),
  534: accountFault('authentication_failed'),
  535: accountFault('authentication_failed'),
  538: accountFault('encryption_required'),
};

/** "A password transition is needed", RFC 4954. */
const PASSWORD_TRANSITION = '4.7.12';

/** Code of a recipient whose address has a wrong syntax. */
export const INVALID_ADDRESS = 'invalid_address';
/** "Non-ASCII addresses not permitted for that sender/recipient", RFC 6531. */
const NON_ASCII_REFUSED = '5.6.7';

const INVALID_SENDER = permanent('sender_rejected', 'invalid_sender');
/** Addresses that cannot be used in a command to this server. Others may take them, so the recipient is not suppressed. */
export const UNWRITABLE_SENDER = INVALID_SENDER;
export const UNWRITABLE_RECIPIENT = permanent('invalid_recipient', 'unsupported_address');
/** The mail is larger than the server allows. */
export const TOO_LARGE = permanent('content_rejected', 'payload_too_large');

/**
 * Enhanced status codes, RFC 3463; an entry with two numbers covers every code below it. Without 5.1.0, which does not say whose
 * address it is about: Postfix answers it to RCPT TO for an unknown sender.
 */
export const ENHANCED_CODES: CodeTable = {
  '5.1.1': permanent('invalid_recipient', 'unknown_recipient'),
  '5.1.2': permanent('invalid_recipient', 'unknown_domain'),
  '5.1.3': permanent('invalid_recipient', INVALID_ADDRESS),
  '5.1.6': permanent('invalid_recipient', 'recipient_moved'),
  '5.1.7': INVALID_SENDER,
  '5.1.8': INVALID_SENDER,
  '5.1.10': permanent('invalid_recipient', 'unknown_domain'),
  // Exchange Online: the account has reached its daily limit of recipients.
  '5.1.90': DAILY_CAP,
  '5.2.1': permanent('recipient_unavailable', 'mailbox_disabled'),
  '5.2.2': permanent('recipient_unavailable', 'mailbox_full'),
  '5.2.3': TOO_LARGE,
  '5.3.4': TOO_LARGE,
  // Gmail: the account has reached its daily limit of mails. RFC 3463 means a congested mail system.
  '5.4.5': DAILY_CAP,
  [NON_ASCII_REFUSED]: UNWRITABLE_RECIPIENT,
  '5.6': permanent('content_rejected', 'invalid_content'),
  '5.7.0': permanent('content_rejected', 'rejected_by_policy'),
  '5.7.1': permanent('content_rejected', 'rejected_by_policy'),
  '5.7.8': accountFault('authentication_failed'),
  '5.7.9': accountFault('authentication_failed'),
  ...codes(
    permanent('sender_rejected', 'sender_unauthenticated'),
    ...SENDER_UNAUTHENTICATED.map((code) => `5.${code}`),
  ),
  '5.7.27': INVALID_SENDER,
  '5.7': permanent('content_rejected', 'rejected_by_policy'),
  '4.2.2': transient('recipient_unavailable', 'mailbox_full'),
  '4.7': transient('provider_throttled', 'rate_limited'),
};

/** The meaning of a reply whose codes are not specific, by its first digit and the stage. */
const BY_STAGE: Readonly<Record<Stage, { readonly later: ErrorMeaning; readonly never: ErrorMeaning }>> = {
  // A server that refuses the session says nothing about the message.
  greeting: {
    later: transient('provider_unavailable', 'greeting_refused'),
    never: transient('provider_unavailable', 'greeting_refused'),
  },
  auth: {
    later: transient('provider_unavailable', 'authentication_unavailable'),
    never: accountFault('authentication_failed'),
  },
  sender: {
    later: transient('provider_unavailable', 'sender_deferred'),
    never: permanent('sender_rejected', 'sender_refused'),
  },
  recipient: {
    later: transient('recipient_unavailable', 'recipient_deferred'),
    never: permanent('invalid_recipient', 'recipient_refused'),
  },
  content: {
    later: transient('provider_unavailable', 'content_deferred'),
    never: permanent('content_rejected', 'content_refused'),
  },
};

/**
 * Returns a reply's meaning, by precedence: authentication replies, text about the sending account, text about the sender, enhanced
 * code, reply code, stage.
 * @param text the reply with its codes.
 */
export function meaningOfReply(
  stage: Stage,
  replyCode: number,
  enhancedCode: string | undefined,
  text = '',
): ErrorMeaning {
  const { later, never } = BY_STAGE[stage];
  if (replyCode === 432) return meaningOf432(stage, enhancedCode);
  const byReply = REPLY_CODES[replyCode];
  if (byReply?.class === 'auth_or_config') return byReply;
  if (stage === 'greeting') return later;
  const byText =
    (stage === 'auth' ? undefined : accountBlamed(text)) ??
    (stage === 'recipient' && replyCode >= 500 ? relayDenied(text) : undefined);
  if (byText !== undefined) return byText;
  // A temporary refusal of one recipient is greylisting or a busy mailbox, whatever its code; the server itself works.
  if (stage === 'recipient' && replyCode >= 400 && replyCode < 500 && replyCode !== 421) return later;
  const byEnhanced = enhancedCode === undefined ? undefined : enhancedRuling(stage, enhancedCode, replyCode);
  // A code about the sender says more than the text.
  const isAboutSender = replyCode >= 500 && stage !== 'auth' && byEnhanced?.class !== 'sender_rejected';
  const bySenderText = isAboutSender ? senderBlamed(text) : undefined;
  // RFC 1870, 6.1: the answer to a MAIL FROM whose SIZE is above the limit of the server.
  const isTooLarge = stage === 'sender' && replyCode === 552;
  return (
    bySenderText ?? byEnhanced ?? (isTooLarge ? TOO_LARGE : byReply) ?? (replyCode < 500 ? later : never)
  );
}

/**
 * RFC 4954, 6: the password must be changed, as the answer to AUTH. Exchange Online answers with it, and 4.3.2, to more sessions at
 * once than a mailbox may have.
 */
function meaningOf432(stage: Stage, enhancedCode = PASSWORD_TRANSITION): ErrorMeaning {
  return stage === 'auth' && enhancedCode === PASSWORD_TRANSITION
    ? accountFault('authentication_failed')
    : transient('provider_throttled', 'rate_limited');
}

/** An enhanced code that contradicts the reply's first digit is ignored: the reply code decides whether to retry. */
function enhancedRuling(stage: Stage, code: string, replyCode: number): ErrorMeaning | undefined {
  if (code[0] !== String(replyCode)[0]) return undefined;
  // X.1.x is about an address (RFC 3463, 3.2), and MAIL FROM has none but the sender's.
  const isAboutAddress = (code.startsWith('5.1.') && code !== '5.1.90') || code === NON_ASCII_REFUSED;
  if (stage === 'sender' && isAboutAddress) return INVALID_SENDER;
  return ENHANCED_CODES[code] ?? ENHANCED_CODES[code.split('.', 2).join('.')];
}

/** Meanings of failures without a reply, by nodemailer's error code; any other code means an unavailable provider. */
export const SESSION_CODES: CodeTable = {
  EAUTH: accountFault('authentication_failed'),
  ENOAUTH: accountFault('authentication_failed'),
  ETLS: accountFault('encryption_unavailable'),
  ECONFIG: accountFault('invalid_config'),
  EDNS: transient('provider_unavailable', 'dns'),
  ETIMEDOUT: transient('provider_unavailable', 'timeout'),
  ECONNECTION: transient('provider_unavailable', 'connection_closed'),
  ESOCKET: transient('provider_unavailable', 'connection_reset'),
  EPROTOCOL: transient('provider_unavailable', 'protocol_error'),
  EREPLYSIZE: transient('provider_unavailable', 'reply_too_long'),
};

/** Causes that nodemailer reports as a socket error. */
export const SOCKET_CODES: CodeTable = {
  ECONNREFUSED: transient('provider_unavailable', 'connect_refused'),
  EHOSTUNREACH: transient('provider_unavailable', 'unreachable'),
  ENETUNREACH: transient('provider_unavailable', 'unreachable'),
  ECONNRESET: transient('provider_unavailable', 'connection_reset'),
};

/** The certificate does not match the host: fix the account's host name, its CA or the server. */
export const CERTIFICATE = accountFault('certificate_invalid');

/** The account requires STARTTLS and the server does not offer it. */
export const ENCRYPTION = accountFault('encryption_unavailable');

/** The server offers STARTTLS and cannot do it now (454 in RFC 3207): nothing about the account has to change. */
export const ENCRYPTION_LATER = transient('provider_unavailable', 'temporarily_unavailable');
