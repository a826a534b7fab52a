import type { PeerCertificate } from 'node:tls';
import { expect, test } from 'vitest';
import { watchedCertificate, type CertificateLife } from './watched-certificate.ts';

const HOST = 'db.example';

/** A certificate for `HOST`, as Node shows it; an authority's own names itself as its issuer. */
function certificate(to: string, issuerCertificate?: PeerCertificate): PeerCertificate {
  const own = {
    subject: { CN: HOST },
    subjectaltname: `DNS:${HOST}`,
    valid_from: 'Jan  1 00:00:00 2026 GMT',
    valid_to: to,
  } as unknown as PeerCertificate;
  return Object.assign(own, { issuerCertificate: issuerCertificate ?? own });
}

function setup() {
  const seen: CertificateLife[] = [];
  return { seen, check: watchedCertificate((life) => seen.push(life)) };
}

test.each([
  ["the server's own", certificate('Mar  1 00:00:00 2026 GMT', certificate('Jan  1 00:00:00 2036 GMT'))],
  [
    "an authority's above it",
    certificate('Jun  1 00:00:00 2026 GMT', certificate('Mar  1 00:00:00 2026 GMT')),
  ],
])('the certificate that ends first is told of: %s', (_, shown) => {
  const { seen, check } = setup();
  expect(check(HOST, shown)).toBeUndefined();
  expect(seen).toEqual([{ from: Date.UTC(2026, 0) / 1_000, to: Date.UTC(2026, 2) / 1_000 }]);
});

test('a server of another name is refused', () => {
  const { check } = setup();
  expect(check('other.example', certificate('Mar  1 00:00:00 2026 GMT'))).toMatchObject({
    code: 'ERR_TLS_CERT_ALTNAME_INVALID',
  });
});
