import { createVerify, X509Certificate, type KeyObject } from 'node:crypto';
import { z } from 'zod';
import { DAY_MS } from '#core/domain/text/duration.ts';
import { parseJson } from '../classify-error.ts';
import type { ProviderContext } from '../provider.ts';
import type { ParsedCall, ReceiptCall, ReceiptVerdict } from '../receipt.ts';
import { GENUINE, MISMATCH, MISSING } from '../signature.ts';
import { awsHost, REGION } from './aws-host.ts';

const CERTIFICATE_KEPT_MS = DAY_MS;
/** Only this path: other paths of these hosts return content that any AWS customer can upload. */
const CERTIFICATE_PATH = /^\/SimpleNotificationService-[0-9A-Za-z]{1,128}\.pem$/;
const UNKNOWN_SENDER: ReceiptVerdict = { kind: 'forged', reason: 'unknown_sender' };
const UNDECIDED: ReceiptVerdict = { kind: 'undecided' };

const Envelope = z.looseObject({
  Type: z.enum(['Notification', 'SubscriptionConfirmation', 'UnsubscribeConfirmation']),
  MessageId: z.string().min(1).max(255),
  TopicArn: z.string(),
  Message: z.string(),
  Timestamp: z.string(),
  SignatureVersion: z.enum(['1', '2']),
  Signature: z.string().min(1),
  SigningCertURL: z.string(),
  Subject: z.string().nullish(),
  Token: z.string().nullish(),
  SubscribeURL: z.string().nullish(),
});
type Envelope = z.output<typeof Envelope>;

/** The fields that the signature covers, in this order. */
const NOTIFICATION = ['Message', 'MessageId', 'Subject', 'Timestamp', 'TopicArn', 'Type'] as const;
const SUBSCRIPTION = [
  'Message',
  'MessageId',
  'SubscribeURL',
  'Timestamp',
  'Token',
  'TopicArn',
  'Type',
] as const;

/**
 * Verifies that SNS made this call for the account's own topic. The signature alone only proves that it came from some
 * topic of any customer, https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html. The timestamp in
 * the call is that of the event, which SNS retries for an hour, so it is not checked.
 */
export async function judgeEnvelope(
  call: ReceiptCall,
  topicArn: string | undefined,
  context: ProviderContext,
): Promise<ReceiptVerdict> {
  const envelope = readEnvelope(call);
  if (envelope === undefined) return MISSING;
  if (topicArn === undefined || envelope.TopicArn !== topicArn) return UNKNOWN_SENDER;
  const url = snsUrl(envelope.SigningCertURL, topicArn);
  if (url === undefined || !CERTIFICATE_PATH.test(url.pathname) || url.search !== '') return UNKNOWN_SENDER;
  try {
    const key = await signingKey(url, context);
    const verifier = createVerify(envelope.SignatureVersion === '1' ? 'RSA-SHA1' : 'RSA-SHA256');
    const isSigned = verifier.update(signedText(envelope)).verify(key, envelope.Signature, 'base64');
    return isSigned && isExact(envelope.Signature) ? GENUINE : MISMATCH;
  } catch (error) {
    if (error instanceof NoCertificate) return error.verdict;
    throw error;
  }
}

/** Parses a genuine call. `read` receives the parsed event of a notification and its id. */
export function parseEnvelope(
  call: ReceiptCall,
  read: (event: unknown, eventId: string) => ParsedCall,
): ParsedCall {
  const envelope = readEnvelope(call);
  if (envelope === undefined) return { kind: 'unreadable' };
  switch (envelope.Type) {
    case 'Notification':
      return read(parseJson(envelope.Message), envelope.MessageId);
    case 'SubscriptionConfirmation': {
      const url = snsUrl(envelope.SubscribeURL ?? '', envelope.TopicArn);
      const isConfirmation =
        url?.pathname === '/' &&
        url.searchParams.get('Action') === 'ConfirmSubscription' &&
        url.searchParams.get('TopicArn') === envelope.TopicArn;
      return isConfirmation ? { kind: 'confirm', url: url.href } : { kind: 'unreadable' };
    }
    case 'UnsubscribeConfirmation':
      return { kind: 'receipts', receipts: [] };
  }
}

function readEnvelope({ body }: ReceiptCall): Envelope | undefined {
  return Envelope.safeParse(parseJson(Buffer.from(body).toString('utf8'))).data;
}

function signedText(envelope: Envelope): string {
  const keys = envelope.Type === 'Notification' ? NOTIFICATION : SUBSCRIPTION;
  return keys.map((key) => (typeof envelope[key] === 'string' ? `${key}\n${envelope[key]}\n` : '')).join('');
}

/** Base64 can spell the same bytes in several ways; SNS uses only one. */
function isExact(base64: string): boolean {
  return Buffer.from(base64, 'base64').toString('base64') === base64;
}

/**
 * Returns undefined for a URL that does not point to SNS itself in the topic's region. A host of a similar form need not be SNS:
 * `sns.s3-us-west-2.amazonaws.com` is a bucket of the name `sns`.
 */
function snsUrl(text: string, topicArn: string): URL | undefined {
  const url = URL.parse(text);
  const [, , , region = ''] = topicArn.split(':');
  const isSns =
    url !== null &&
    url.protocol === 'https:' &&
    REGION.test(region) &&
    url.hostname === awsHost('sns', region) &&
    url.port === '' &&
    url.username === '' &&
    url.password === '';
  return isSns ? url : undefined;
}

/** Thrown inside the memo, because the memo remembers resolved values only. */
class NoCertificate extends Error {
  readonly verdict: ReceiptVerdict;

  constructor(verdict: ReceiptVerdict) {
    super('The certificate cannot be had');
    this.verdict = verdict;
  }
}

function signingKey(url: URL, context: ProviderContext): Promise<KeyObject> {
  return context.memo(`sns-certificate ${url.href}`, async () => {
    const result = await context.http({ method: 'GET', url: `${context.origin(url.origin)}${url.pathname}` });
    // SNS cannot have signed anything with a certificate that it does not have.
    const isUnknown = result.kind === 'response' && [403, 404].includes(result.status);
    if (isUnknown) throw new NoCertificate(MISMATCH);
    if (result.kind !== 'response' || result.status !== 200) throw new NoCertificate(UNDECIDED);
    const certificate = readCertificate(result.text);
    const now = context.epochMs();
    const expiresAt = certificate === undefined ? 0 : Date.parse(certificate.validTo);
    if (certificate === undefined || !(Date.parse(certificate.validFrom) <= now && now < expiresAt)) {
      throw new NoCertificate(UNDECIDED);
    }
    return { value: certificate.publicKey, expiresAt: Math.min(now + CERTIFICATE_KEPT_MS, expiresAt) };
  });
}

function readCertificate(pem: string): X509Certificate | undefined {
  try {
    const certificate = new X509Certificate(pem);
    return certificate.publicKey.asymmetricKeyType === 'rsa' ? certificate : undefined;
  } catch {
    return undefined;
  }
}
