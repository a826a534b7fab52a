import { accountFault, permanent, transient, type ErrorMeaning } from '../classify-error.ts';
import { SES_SENDING_PAUSED } from '../ses-paused.ts';

type Texts = readonly { readonly pattern: RegExp; readonly meaning: ErrorMeaning }[];

const TEXT_LENGTH_MAX = 1_000;

/** The account may send no more for a while; another mail would be refused as well. */
export const DAILY_CAP = transient('provider_throttled', 'daily_cap_reached');
const RATE_LIMITED = transient('provider_throttled', 'rate_limited');
const ACCOUNT_PENDING = accountFault('account_pending');

/** What mail servers answer about the sending account, with codes that blame the mail, the recipient or themselves. */
const ABOUT_ACCOUNT: Texts = [
  // Exchange Online answers the content with the codes 5.2.0 or 5.2.2 when the sender's own mailbox has used up its quota, and
  // names the reason as an exception alone. Google answers with 5.7.1 at any command; the same words with 5.2.2 are about the
  // recipient's mailbox. Amazon SES answers the content with 454.
  {
    pattern:
      /STOREDRV\.Submission\S{0,60}Quota|OutboundSpamException.{0,200}RefuseQuota|sending (?:limit|quota)|relay limit exceeded|5\.7\.1 email quota exceeded|Throttling failure: Daily message quota/i,
    meaning: DAILY_CAP,
  },
  { pattern: /Throttling failure: Maximum sending rate/i, meaning: RATE_LIMITED },
  // Mailgun answers the command DATA with 421 and one of its HTTP texts, and a new account above its limit with 554.
  {
    pattern: /not allowed to send: (?:.{0,20}limit exceeded|you are sending too fast)/i,
    meaning: RATE_LIMITED,
  },
  { pattern: /account is on probation and domains are limited/i, meaning: RATE_LIMITED },
  {
    pattern: /not allowed to send: .{0,40}test purposes only/i,
    meaning: permanent('sender_rejected', 'trial_restriction'),
  },
  { pattern: /Please activate your Mailgun account/i, meaning: ACCOUNT_PENDING },
  {
    pattern: /^\d{3}[ -]Domain \S{1,253} is not allowed to send/i,
    meaning: accountFault('account_suspended'),
  },
  // Exchange Online has blocked the sender's mailbox.
  {
    pattern: /STOREDRV\.Submission\S{0,60}OutboundSpamException/i,
    meaning: accountFault('account_suspended'),
  },
  { pattern: SES_SENDING_PAUSED, meaning: accountFault('account_suspended') },
  // Brevo (502).
  { pattern: /SMTP account is not yet activated/i, meaning: ACCOUNT_PENDING },
  // Amazon SES (554): the user's policy does not cover the sender.
  { pattern: /is not authorized to perform\b.{0,3}ses:/i, meaning: accountFault('forbidden') },
  // Brevo (502), where other servers answer 530.
  { pattern: /please authenticate first/i, meaning: accountFault('authentication_required') },
];

/** Refusals of the sender, with codes that blame the recipient or the content: another account may send as it. */
const ABOUT_SENDER: Texts = [
  // Amazon SES (554), and SendGrid (550).
  {
    pattern: /Email address is not verified|does not match a verified Sender Identity/i,
    meaning: permanent('sender_rejected', 'sender_unverified'),
  },
  // Postfix, which answers RCPT TO with what it holds against MAIL FROM; Exchange.
  {
    pattern: /sender address rejected|permissions? to send as this sender|SendAsDenied/i,
    meaning: permanent('sender_rejected', 'sender_refused'),
  },
];

/** Postfix: "Relay access denied"; Exchange: "Unable to relay"; Exim: "relay not permitted". */
const ABOUT_RELAYING = /\brelay(?:ing)?\b/i;
const RELAY_DENIED = permanent('sender_rejected', 'relay_denied');

/** Returns the meaning of a reply whose text blames the sending account; undefined for any other. @param text with its codes. */
export function accountBlamed(text: string): ErrorMeaning | undefined {
  return meaningIn(ABOUT_ACCOUNT, text);
}

/** Returns the meaning of a permanent refusal whose text blames the sender; undefined for any other. @param text with its codes. */
export function senderBlamed(text: string): ErrorMeaning | undefined {
  return meaningIn(ABOUT_SENDER, text);
}

/**
 * Returns the meaning of a permanently refused recipient for whom the server does not relay; undefined for any other. The server
 * does not know the client as one that may send: no fault of the mail or the recipient, whatever the code.
 */
export function relayDenied(text: string): ErrorMeaning | undefined {
  return ABOUT_RELAYING.test(text.slice(0, TEXT_LENGTH_MAX)) ? RELAY_DENIED : undefined;
}

function meaningIn(texts: Texts, text: string): ErrorMeaning | undefined {
  const beginning = text.slice(0, TEXT_LENGTH_MAX);
  return texts.find(({ pattern }) => pattern.test(beginning))?.meaning;
}
