import { isIP } from 'node:net';
import type { PeerCertificate } from 'node:tls';

type Check = (host: string, certificate: PeerCertificate) => Error | undefined;

/** The name that Node checks if it is told none. */
const NODE_DEFAULT = 'localhost';

/**
 * Returns a check of the server's name for the driver, which tells Node the name of a server but not its address. Without a name,
 * Node would demand a certificate for `localhost`, and accept it from whoever has one.
 * @param hosts those of the connection string. Of several addresses the certificate must name one.
 */
export function serverCheck(hosts: () => readonly string[], check: Check): Check {
  return (name, certificate) => {
    const known = hosts();
    if (name !== NODE_DEFAULT || known.includes(NODE_DEFAULT)) return check(name, certificate);
    const addresses = known.filter((host) => isIP(host) !== 0);
    if (addresses.length === 0) return check(name, certificate);
    const faults = addresses.map((address) => check(address, certificate));
    return faults.includes(undefined) ? undefined : faults.at(-1);
  };
}
