import { createHmac, createSecretKey, hkdfSync, type KeyObject } from 'node:crypto';
import type { Channel } from '../message/channel.ts';
import type { Secret } from '../storage/secret.ts';

const HEX_DIGITS = 32;

/** The key object for address hashes, created once: creating it for each hash would cost five times the HMAC itself. */
export type AddressKeyRoot = KeyObject;

/**
 * Derives the key for address hashes.
 * @param pepper shared by api and worker, because each must find what the other has stored.
 */
export function addressKeyRoot(pepper: Secret): AddressKeyRoot {
  const key = hkdfSync('sha256', pepper.reveal(), '', 'despatch:v1:address-key', 32);
  return createSecretKey(new Uint8Array(key));
}

/**
 * Returns the key under which a recipient is stored in a tenant's suppressions: 16 bytes that reveal nothing about the address
 * without the pepper, and that differ between tenants and between channels.
 * @param tenantId in lower case.
 * @param address in its normal form (`normalRecipient`).
 */
export function addressKey(...of: Parameters<typeof addressKeyHex>): Buffer {
  return Buffer.from(addressKeyHex(...of), 'hex');
}

/**
 * Returns `addressKey` as hex digits. Each message needs it, and a buffer would take half as long again. Mail addresses that differ
 * only in case have the same key: RFC 5321 (2.4) lets a server tell them apart, but hardly any does, and who unsubscribes as
 * `Ann@` wants no mail as `ann@` either.
 */
export function addressKeyHex(
  root: AddressKeyRoot,
  tenantId: string,
  channel: Channel,
  address: string,
): string {
  const compared = channel === 'email' ? address.toLowerCase() : address;
  const text = `${tenantId} ${channel} ${compared}`;
  return createHmac('sha256', root).update(text).digest('hex').slice(0, HEX_DIGITS);
}
