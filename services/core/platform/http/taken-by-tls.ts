import { createSecureContext } from 'node:tls';
import type { ClientCertificate } from '#core/domain/account/client-certificate.ts';

/**
 * Returns whether TLS accepts this certificate for a connection: TLS parses the whole chain, and has its own rules of strength.
 */
export function isTakenByTls({ certificate, key }: ClientCertificate): boolean {
  try {
    createSecureContext({ cert: certificate, key });
    return true;
  } catch {
    return false;
  }
}
