import { createHash, randomBytes, randomUUID } from 'node:crypto';

type Brand<Name extends string> = string & { readonly __brand: Name };

/** Lower-case UUIDv4 identifiers. The brand prevents passing one kind for another. */
export type TenantId = Brand<'TenantId'>;
export type MessageId = Brand<'MessageId'>;
export type ProviderAccountId = Brand<'ProviderAccountId'>;
export type ApiKeyId = Brand<'ApiKeyId'>;
export type UserId = Brand<'UserId'>;

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Returns true for a lower-case UUID of any version: the service makes all stored ids, so the version is not checked again. */
export function isUuid(text: string): boolean {
  return UUID.test(text);
}

/** Returns a new random identifier (UUIDv4, as the contract says). */
export function newId<Id extends string>(): Id {
  return randomUUID() as string as Id;
}

/** Formats 16 bytes as a UUID. */
export function uuidOf(bytes: Buffer): string {
  const hex = bytes.toString('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

/**
 * Returns an id in the form of a UUIDv4 that is derived from an unguessable name, always the same, so that it need not be stored.
 */
export function uuidFrom(name: string): string {
  const bytes = createHash('sha256').update(name).digest().subarray(0, 16);
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x40, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  return uuidOf(bytes);
}

/**
 * Returns a name for one start of a process: the given name for people, and 64 random bits. A host name is no identity: the next
 * process of the same pod has it too, and two hosts may share one.
 */
export function newProcessName(name: string): string {
  return `${name}:${randomBytes(8).toString('base64url')}`;
}
