import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { join } from 'node:path';

/**
 * Creates an authority with a server certificate and a client certificate, and a second authority that no server trusts.
 * @param host an address in the server certificate beside 127.0.0.1 and localhost.
 */
export function makeCertificates(dir: string, program = 'openssl', host?: string): void {
  const openssl = (...args: string[]): void => {
    execFileSync(program, args, { cwd: dir, stdio: 'pipe' });
  };
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2'];
  for (const ca of ['ca', 'other-ca']) {
    openssl('req', '-x509', ...key, '-keyout', `${ca}.key`, '-out', `${ca}.pem`, '-subj', `/CN=${ca}`);
  }
  const more = host === undefined ? '' : `,${isIP(host) === 0 ? 'DNS' : 'IP'}:${host}`;
  writeFileSync(join(dir, 'names.cnf'), `subjectAltName=IP:127.0.0.1,DNS:localhost${more}\n`);
  for (const name of ['server', 'client']) {
    openssl(
      'req',
      ...key.slice(0, -2),
      '-keyout',
      `${name}.key`,
      '-out',
      `${name}.csr`,
      '-subj',
      `/CN=${name}`,
    );
    const signing = [
      '-CA',
      'ca.pem',
      '-CAkey',
      'ca.key',
      '-CAcreateserial',
      '-days',
      '2',
      '-extfile',
      'names.cnf',
    ];
    openssl('x509', '-req', '-in', `${name}.csr`, ...signing, '-out', `${name}.pem`);
  }
}

/** PEM texts of a client's certificate and key. */
export type ClientCertificate = { readonly certificate: string; readonly key: string };

/**
 * Signs a client certificate by the authority in `dir`. Kubernetes reads the common name as the user's and the organizations as
 * the groups.
 */
export function signClient(
  dir: string,
  name: string,
  groups: readonly string[] = [],
  program = 'openssl',
): ClientCertificate {
  // Several processes may use the same authority at the same time.
  const file = `client-${randomUUID()}`;
  const openssl = (...args: string[]): void => {
    execFileSync(program, args, { cwd: dir, stdio: 'pipe' });
  };
  const subject = [...groups.map((group) => ['O', group]), ['CN', name]]
    .map(([type, value]) => `/${type}=${value?.replace(/[/+\\]/g, '\\$&')}`)
    .join('');
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  openssl('req', ...key, '-keyout', `${file}.key`, '-out', `${file}.csr`, '-subj', subject);
  const serial = ['-set_serial', `0x${randomUUID().replaceAll('-', '')}`];
  const signing = ['-CA', 'ca.pem', '-CAkey', 'ca.key', ...serial, '-days', '2'];
  openssl('x509', '-req', '-in', `${file}.csr`, ...signing, '-out', `${file}.pem`);
  const read = (suffix: string): string => readFileSync(join(dir, `${file}.${suffix}`), 'utf8');
  return { certificate: read('pem'), key: read('key') };
}
