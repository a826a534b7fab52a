import { createHash, randomBytes, randomUUID } from 'node:crypto';

type Brand<Name extends string> = string & { readonly __brand: Name };

/** Lower-case UUIDv4 identifiers. The brand keeps one kind from being passed for another. */
export type TenantId = Brand<'TenantId'>;
export type MessageId = Brand<'MessageId'>;
export type ProviderAccountId = Brand<'ProviderAccountId'>;
export type ApiKeyId = Brand<'ApiKeyId'>;
export type UserId = Brand<'UserId'>;

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** True for a lower-case UUID of any version: stored ids are ours, so their version needs no second check. */
export function isUuid(text: string): boolean {
  return UUID.test(text);
}

/** A fresh random identifier (UUIDv4, as the contract says). */
export function newId<Id extends string>(): Id {
  return randomUUID() as string as Id;
}

/** How 16 bytes are written as a UUID. */
export function uuidOf(bytes: Buffer): string {
  const hex = bytes.toString('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

/** An id, in the form of a UUIDv4, for what has a name that nobody guesses and needs no place to keep an id: always the same. */
export function uuidFrom(name: string): string {
  const bytes = createHash('sha256').update(name).digest().subarray(0, 16);
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x40, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  return uuidOf(bytes);
}

/**
 * Names one start of a process: the given name for people, and 64 random bits of its own. A host name is no identity, as
 * the next process of the same pod has it too, and so may two hosts.
 */
export function newProcessName(name: string): string {
  return `${name}:${randomBytes(8).toString('base64url')}`;
}
