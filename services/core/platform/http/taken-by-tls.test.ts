import { describe, expect, test } from 'vitest';
import { STAND_IN_CERTIFICATE, STAND_IN_KEY } from '#providers/smtp/stand-in-certificate.ts';
import { clientCertificateFault, type ClientCertificate } from '#core/domain/account/client-certificate.ts';
import { isTakenByTls } from './taken-by-tls.ts';

const faultOf = (shown: ClientCertificate) => clientCertificateFault(shown, isTakenByTls);
const good = { certificate: STAND_IN_CERTIFICATE, key: STAND_IN_KEY };
/** A truncated certificate: its header states a length that exceeds the remaining bytes. */
const CUT = `-----BEGIN CERTIFICATE-----
MIIBqjCCAVCgAwIBAgIBATAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAltYWlsLnRl
-----END CERTIFICATE-----
`;
/** A certificate on the weak curve prime192v1. */
const WEAK = {
  certificate: `-----BEGIN CERTIFICATE-----
MIIBUDCCAQWgAwIBAgIUWYVwIjdogh2492w/dCpjHvcCzB8wCgYIKoZIzj0EAwIw
DDEKMAgGA1UEAwwBeDAgFw0yNjExMjMxNTU0MDlaGA8yMDUxMDcxNTE1NTQwOVow
DDEKMAgGA1UEAwwBeDBJMBMGByqGSM49AgEGCCqGSM49AwEBAzIABNzBPEfA2Cqv
+mMwvsSeXXC3LsjLnwKrGleGLCHq9S6JDNzxZmL4hjCct/KlvNOX+qNTMFEwHQYD
VR0OBBYEFGzmV2h4fXm4eW9O/zURJXEBgP1kMB8GA1UdIwQYMBaAFGzmV2h4fXm4
eW9O/zURJXEBgP1kMA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDOQAwNgIZ
AMDgCiqK8yOIHurlM6Muq879Onyxf1c1BQIZAKRaH2DVKhfUAqz0FrnvuReIziQU
to2LBw==
-----END CERTIFICATE-----
`,
  key: `-----BEGIN EC PRIVATE KEY-----
MF8CAQEEGLdNTlV2r8MDVuknfCI/G6BBLU67yIGyq6AKBggqhkjOPQMBAaE0AzIA
BNzBPEfA2Cqv+mMwvsSeXXC3LsjLnwKrGleGLCHq9S6JDNzxZmL4hjCct/KlvNOX
+g==
-----END EC PRIVATE KEY-----
`,
};

describe('a client certificate for tenant hosts', () => {
  test('is accepted with its key, alone or followed by its authority', () => {
    expect(faultOf(good)).toBeUndefined();
    const certificate = `${STAND_IN_CERTIFICATE}${STAND_IN_CERTIFICATE}`;
    expect(faultOf({ ...good, certificate })).toBeUndefined();
  });

  test.each([
    ['with a truncated authority', { ...good, certificate: `${STAND_IN_CERTIFICATE}${CUT}` }],
    ['of a curve that TLS refuses', WEAK],
  ])('%s is refused as TLS would refuse it', (_, shown) => {
    expect(faultOf(shown)).toMatchObject({ field: 'certificate', rule: 'tls' });
  });
});
