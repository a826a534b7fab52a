import { constants } from 'node:crypto';

/**
 * The cipher suites of connections to hosts that tenants choose: Node's own without finite-field Diffie-Hellman, whose group the
 * server chooses. One of 10,000 bits costs the client half a second of its event loop at each connection.
 */
export const TENANT_HOST_CIPHERS = `${constants.defaultCipherList}:!kDHE`;
