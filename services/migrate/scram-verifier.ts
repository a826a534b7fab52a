import { createHash, createHmac, pbkdf2 } from 'node:crypto';
import { promisify } from 'node:util';

/** Postgres's own default. */
const ITERATIONS = 4_096;
const HASH_BYTES = 32;

/**
 * Returns what Postgres stores of a password (RFC 5802, RFC 7677; the form is that of `pg_authid.rolpassword`). A role is given
 * this instead of the password, which would be in the server's log wherever statements are logged. It contains no quotes.
 */
export async function scramVerifier(password: string, salt: Uint8Array): Promise<string> {
  const salted = await promisify(pbkdf2)(password.normalize('NFKC'), salt, ITERATIONS, HASH_BYTES, 'sha256');
  const hmac = (text: string): Buffer => createHmac('sha256', salted).update(text).digest();
  const storedKey = createHash('sha256').update(hmac('Client Key')).digest('base64');
  const serverKey = hmac('Server Key').toString('base64');
  return `SCRAM-SHA-256$${ITERATIONS}:${Buffer.from(salt).toString('base64')}$${storedKey}:${serverKey}`;
}
