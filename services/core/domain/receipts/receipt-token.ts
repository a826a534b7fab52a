import { createHmac, createSecretKey, hkdfSync, timingSafeEqual, type KeyObject } from 'node:crypto';
import type { Secret } from '../storage/secret.ts';

// A receipt URL ends in a token that authenticates its caller. Tokens are not stored: whoever has the pepper can derive them
// again. A token begins with its version, so that a guess is rejected without a query to the database.

const BYTES = 24;
const TOKEN = /^([1-9]\d{0,8})\.([A-Za-z0-9_-]{32})$/;
/** Compared for texts that are no token, so that they take as long as tokens. */
const NO_TOKEN = '.'.repeat(32);

/** The key object for tokens, created once: creating it for each token would cost six times the HMAC itself. */
export type ReceiptKey = KeyObject;

export function receiptKey(pepper: Secret): ReceiptKey {
  const key = hkdfSync('sha256', pepper.reveal(), '', 'despatch:v1:receipt-token', 32);
  return createSecretKey(new Uint8Array(key));
}

/**
 * Returns the token of an account.
 * @param accountId in lower case.
 */
export function receiptToken(key: ReceiptKey, accountId: string, version: number): string {
  return `${version}.${proofOf(key, accountId, version)}`;
}

/**
 * Returns the version of an account's token; undefined for any other text. Takes constant time for any text. The caller must
 * compare the version with the account's.
 */
export function readReceiptToken(key: ReceiptKey, accountId: string, token: string): number | undefined {
  const [, digits = '0', proof = NO_TOKEN] = TOKEN.exec(token) ?? [];
  const version = Number(digits);
  // Tests break this (mutant: receipt-token): a caller without an account's token cannot report for the account.
  const isSame = timingSafeEqual(Buffer.from(proof), Buffer.from(proofOf(key, accountId, version)));
  return isSame ? version : undefined;
}

/** Returns the URL to which a vendor reports. */
export function receiptUrl(publicBaseUrl: string, accountId: string, token: string): string {
  return `${publicBaseUrl.replace(/\/+$/, '')}/v1/receipts/${accountId}/${token}`;
}

function proofOf(key: ReceiptKey, accountId: string, version: number): string {
  return createHmac('sha256', key).update(`${accountId}.${version}`).digest().toString('base64url', 0, BYTES);
}
