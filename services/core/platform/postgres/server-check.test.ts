import { checkServerIdentity, type PeerCertificate } from 'node:tls';
import { expect, test } from 'vitest';
import { serverCheck } from './server-check.ts';

const certificateFor = (subjectaltname: string) =>
  ({ subject: { CN: 'server' }, subjectaltname }) as unknown as PeerCertificate;

/** Node gives the check the name of the server, and `localhost` for one that is named by its address. */
test.each([
  ['localhost', ['10.0.0.1'], 'IP Address:10.0.0.1', true],
  ['localhost', ['10.0.0.1'], 'DNS:localhost', false],
  ['localhost', ['10.0.0.1'], 'IP Address:10.0.0.2', false],
  ['localhost', ['fd00::1'], 'IP Address:FD00:0:0:0:0:0:0:1', true],
  ['localhost', ['10.0.0.1', '10.0.0.2'], 'IP Address:10.0.0.2', true],
  ['localhost', ['10.0.0.1', '10.0.0.2'], 'IP Address:10.0.0.3', false],
  ['localhost', ['localhost'], 'DNS:localhost', true],
  ['db.example', ['db.example', '10.0.0.1'], 'DNS:db.example', true],
  ['db.example', ['db.example', '10.0.0.1'], 'IP Address:10.0.0.1', false],
])('of %s among %j a certificate for %s is accepted: %s', (name, hosts, names, isAccepted) => {
  const check = serverCheck(() => hosts, checkServerIdentity);
  expect(check(name, certificateFor(names)) === undefined).toBe(isAccepted);
});
