import { createHmac } from 'node:crypto';
import type { CustomAuthenticationContext } from 'nodemailer/lib/smtp-connection';

/** Many times the length of the challenges that RFC 2195 describes. */
const CHALLENGE = /^[A-Za-z0-9+/]{1,1024}={0,2}$/;

/**
 * Logs in by CRAM-MD5 (RFC 2195), which is used with servers that offer neither PLAIN nor LOGIN. Takes the place of nodemailer's own
 * handler, whose pattern `/^334\s+(.+)$/` takes quadratic time on a challenge of blanks.
 */
export async function cramMd5({ auth, sendCommand, reject }: CustomAuthenticationContext): Promise<void> {
  const { user, pass } = auth.credentials;
  const { status, text } = await sendCommand('AUTH CRAM-MD5');
  // Some servers put more than one blank before it, or one behind it.
  const challenge = text.trim();
  if (status !== 334 || !CHALLENGE.test(challenge)) return reject(new Error('The server sent no challenge'));
  const digest = createHmac('md5', pass).update(Buffer.from(challenge, 'base64')).digest('hex');
  const answer = await sendCommand(Buffer.from(`${user} ${digest}`).toString('base64'));
  if (answer.status !== 235) reject(new Error('The login was refused'));
}
