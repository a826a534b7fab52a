import { createHmac, createSecretKey, hkdfSync, timingSafeEqual, type KeyObject } from 'node:crypto';
import type { Secret } from './secret.ts';

// A receipt URL ends in a token that vouches for whoever calls it. Nobody stores one: who has the pepper can make it again.
// It begins with its version, so that a guess is told from a token without a question to the database.

const BYTES = 24;
const TOKEN = /^([1-9]\d{0,8})\.([A-Za-z0-9_-]{32})$/;
/** Compared where a text is no token, so that this takes as long as where it is one. */
const NO_TOKEN = '.'.repeat(32);

/** The key that tokens are made with, prepared: to do so each time would cost six times what the HMAC does. */
export type ReceiptKey = KeyObject;

export function receiptKey(pepper: Secret): ReceiptKey {
  const key = hkdfSync('sha256', pepper.reveal(), '', 'despatch:v1:receipt-token', 32);
  return createSecretKey(new Uint8Array(key));
}

/** @param accountId in lower case. */
export function receiptToken(key: ReceiptKey, accountId: string, version: number): string {
  return `${version}.${proofOf(key, accountId, version)}`;
}

/**
 * The version of an account's token; undefined for any other text. Takes the same time for whatever text.
 * Whether that version still holds is the account's to say.
 */
export function readReceiptToken(key: ReceiptKey, accountId: string, token: string): number | undefined {
  const [, digits = '0', proof = NO_TOKEN] = TOKEN.exec(token) ?? [];
  const version = Number(digits);
  // Tests break this (mutant: receipt-token): who does not know the token of an account cannot report for it.
  const isSame = timingSafeEqual(Buffer.from(proof), Buffer.from(proofOf(key, accountId, version)));
  return isSame ? version : undefined;
}

/** Where a vendor reports to. */
export function receiptUrl(publicBaseUrl: string, accountId: string, token: string): string {
  return `${publicBaseUrl.replace(/\/+$/, '')}/v1/receipts/${accountId}/${token}`;
}

function proofOf(key: ReceiptKey, accountId: string, version: number): string {
  return createHmac('sha256', key).update(`${accountId}.${version}`).digest().toString('base64url', 0, BYTES);
}
