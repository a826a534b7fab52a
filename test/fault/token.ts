import { randomBytes } from 'node:crypto';

/** Returns a token that identifies a message from the load to the provider; letters and digits survive every encoding. */
export function newToken(): string {
  return `tok${randomBytes(10).toString('hex')}kot`;
}

export function tokenIn(text: string): string | undefined {
  return /tok[0-9a-f]{20}kot/.exec(text)?.[0];
}
