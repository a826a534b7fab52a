import { randomBytes, randomUUID } from 'node:crypto';

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
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

/**
 * Names one start of a process: the given name for people, and 64 random bits of its own. A host name is no identity, as
 * the next process of the same pod has it too, and so may two hosts.
 */
export function newProcessName(name: string): string {
  return `${name}:${randomBytes(8).toString('base64url')}`;
}
