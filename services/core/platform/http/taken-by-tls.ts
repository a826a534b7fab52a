import { createSecureContext } from 'node:tls';
import type { ClientCertificate } from '#core/domain/client-certificate.ts';

/** Whether a connection could show this certificate: TLS reads the whole chain, and has rules of what is strong enough. */
export function isTakenByTls({ certificate, key }: ClientCertificate): boolean {
  try {
    createSecureContext({ cert: certificate, key });
    return true;
  } catch {
    return false;
  }
}
