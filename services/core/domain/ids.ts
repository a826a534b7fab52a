import { randomUUID } from 'node:crypto';

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
