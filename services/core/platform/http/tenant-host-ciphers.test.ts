import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, createServer } from 'node:tls';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { TENANT_HOST_CIPHERS } from '#core/domain/account/tls-ciphers.ts';

const OPENSSL = 'openssl';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'despatch-ciphers-'));
  const made = ['-newkey', 'rsa:2048', '-nodes', '-keyout', 'key.pem', '-out', 'cert.pem', '-subj', '/CN=a'];
  execFileSync(OPENSSL, ['req', '-x509', ...made], { cwd: folder, stdio: 'pipe' });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Connects to a server that takes this suite of TLS 1.2 alone. @returns the suite, or the fault. */
async function connectTo(suite: string): Promise<string | undefined> {
  const server = createServer({
    key: readFileSync(join(folder, 'key.pem')),
    cert: readFileSync(join(folder, 'cert.pem')),
    ciphers: suite,
    dhparam: 'auto',
    maxVersion: 'TLSv1.2',
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  const socket = connect({
    port,
    host: '127.0.0.1',
    rejectUnauthorized: false,
    ciphers: TENANT_HOST_CIPHERS,
  });
  try {
    await once(socket, 'secureConnect');
    return socket.getCipher().name;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code;
  } finally {
    socket.destroy();
    server.close();
  }
}

test('a server that offers finite-field Diffie-Hellman alone is refused', async () => {
  expect(await connectTo('DHE-RSA-AES128-GCM-SHA256')).toMatch(/^ERR_SSL_.*HANDSHAKE_FAILURE$/);
  expect(await connectTo('ECDHE-RSA-AES128-GCM-SHA256')).toBe('ECDHE-RSA-AES128-GCM-SHA256');
});
