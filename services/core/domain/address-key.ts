import { createHmac, createSecretKey, hkdfSync, type KeyObject } from 'node:crypto';
import type { Channel } from './channel.ts';
import type { Secret } from './secret.ts';

const BYTES = 16;

/** The key that addresses are hashed with, prepared: to do so each time would cost five times what the HMAC does. */
export type AddressKeyRoot = KeyObject;

/** @param pepper What api and worker share: what the one has stored, the other has to find. */
export function addressKeyRoot(pepper: Secret): AddressKeyRoot {
  const key = hkdfSync('sha256', pepper.reveal(), '', 'despatch:v1:address-key', 32);
  return createSecretKey(new Uint8Array(key));
}

/**
 * Under what a recipient is found in a tenant's suppressions: 16 bytes that tell nothing of the address to whoever lacks the
 * pepper, and that differ from tenant to tenant and from channel to channel.
 * @param tenantId in lower case. @param address in its normal form (`normalRecipient`).
 */
export function addressKey(
  root: AddressKeyRoot,
  tenantId: string,
  channel: Channel,
  address: string,
): Buffer {
  return createHmac('sha256', root).update(`${tenantId} ${channel} ${address}`).digest().subarray(0, BYTES);
}
