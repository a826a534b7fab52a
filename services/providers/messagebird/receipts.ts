import { createHash } from 'node:crypto';
import { errors, jwtVerify, type JWTPayload } from 'jose';
import type { Failure } from '#core/domain/sending/failure.ts';
import {
  PROVIDER_STATUS_MAX,
  TIMESTAMP_TOLERANCE_MS,
  type ParsedReceipt,
  type ReceiptCall,
  type ReceiptDefinition,
  type ReceiptVerdict,
} from '../receipt.ts';
import { GENUINE, isSame, isTimely, MISMATCH, MISSING, UNSIGNED, UNTIMELY } from '../signature.ts';
import { PROVIDER_CODE_MAX, vendorText } from '../vendor-text.ts';
import { MESSAGEBIRD_CODES, MESSAGEBIRD_REASONS } from './outcomes.ts';

const SIGNATURE = 'messagebird-signature-jwt';

/** https://developers.messagebird.com/api/sms-messaging/#handle-a-status-report */
export const messagebirdReceipts: ReceiptDefinition<unknown, { readonly signingKey?: string | undefined }> = {
  setup: {
    mode: 'automatic',
    steps: [
      'Nothing to configure: each message carries its own report URL.',
      'To have reports verified by their signature, copy the signing key of the MessageBird dashboard (Developers, API settings) into signingKey.',
    ],
  },
  headers: [SIGNATURE],
  answer: { status: 200, contentType: 'text/plain', body: 'OK' },

  async verify(call, { secrets: { signingKey } }) {
    // It is not certain that MessageBird signs all reports. Without a key, the token in the URL authenticates the call.
    if (signingKey === undefined) return UNSIGNED;
    const token = call.headers[SIGNATURE];
    return token === undefined ? MISSING : judge(call, token, Buffer.from(signingKey));
  },

  parse(call) {
    const query = URL.parse(call.url)?.searchParams;
    const providerMessageId = query?.get('id');
    if (call.method !== 'GET' || query === undefined || !providerMessageId) return { kind: 'unreadable' };
    const status = query.get('status');
    // Inbound messages have no status.
    return {
      kind: 'receipts',
      receipts: status ? [receipt(query, providerMessageId, status)] : [],
    };
  },
};

async function judge(call: ReceiptCall, token: string, key: Uint8Array): Promise<ReceiptVerdict> {
  try {
    const { payload } = await jwtVerify(token, key, {
      issuer: 'MessageBird',
      algorithms: ['HS256', 'HS384', 'HS512'],
      requiredClaims: ['exp', 'jti', 'url_hash'],
      currentDate: new Date(call.receivedAt),
      clockTolerance: TIMESTAMP_TOLERANCE_MS / 1_000,
    });
    if (!isAbout(call, payload)) return MISMATCH;
    const signedAt = payload.nbf ?? payload.iat ?? payload.exp ?? 0;
    return isTimely(signedAt * 1_000, call.receivedAt) ? GENUINE : UNTIMELY;
  } catch (error) {
    // Checked only after the signature is verified.
    const isEarlyOrLate =
      error instanceof errors.JWTExpired ||
      (error instanceof errors.JWTClaimValidationFailed && error.claim === 'nbf');
    return isEarlyOrLate ? UNTIMELY : MISMATCH;
  }
}

/**
 * The token names the URL and the body by their hashes. It must name the body if there is one, and must not if there is
 * none.
 */
function isAbout({ url, body }: ReceiptCall, claims: JWTPayload): boolean {
  const hashOfBody = claims['payload_hash'];
  const isBody = hashOfBody === undefined ? body.length === 0 : isHash(hashOfBody, body);
  return isBody && isHash(claims['url_hash'], url);
}

function isHash(claim: unknown, of: string | Uint8Array): boolean {
  return (
    typeof claim === 'string' && isSame(claim.toLowerCase(), createHash('sha256').update(of).digest('hex'))
  );
}

function receipt(query: URLSearchParams, providerMessageId: string, status: string): ParsedReceipt {
  const reference = query.get('reference');
  // The plus sign of a time zone is not always escaped; an unescaped one is decoded as a space.
  const at = Date.parse((query.get('statusDatetime') ?? '').replace(/ (?=\d\d:\d\d$)/, '+'));
  return {
    ...(reference ? { reference } : {}),
    providerMessageId,
    // Each message has one recipient and enters each state once.
    eventId: `${providerMessageId}:${status}`,
    providerStatus: status.slice(0, PROVIDER_STATUS_MAX),
    ...(Number.isNaN(at) ? {} : { at }),
    ...meaningOf(status, query.get('statusErrorCode'), query.get('statusReason')),
  };
}

/** Returns the meaning of a MessageBird message status. */
export function meaningOf(
  status: string,
  errorCode: string | null,
  reason: string | null,
): Pick<ParsedReceipt, 'state' | 'failure'> {
  switch (status) {
    case 'sent':
    case 'buffered':
      return { state: 'sent' };
    case 'delivered':
      return { state: 'delivered' };
    case 'expired':
    case 'delivery_failed':
      return {
        state: 'undelivered',
        failure: failureOf(errorCode, reason ?? status),
      };
    default:
      return {};
  }
}

function failureOf(errorCode: string | null, statusReason: string): Failure {
  const reason = statusReason.toLowerCase().replaceAll('_', ' ');
  const known =
    (errorCode !== null && Object.hasOwn(MESSAGEBIRD_CODES, errorCode)
      ? MESSAGEBIRD_CODES[errorCode]
      : undefined) ?? (Object.hasOwn(MESSAGEBIRD_REASONS, reason) ? MESSAGEBIRD_REASONS[reason] : undefined);
  const code = errorCode ? { providerCode: vendorText(errorCode, PROVIDER_CODE_MAX) } : {};
  return { class: known?.class ?? 'unknown', code: known?.code ?? 'undelivered', ...code };
}
