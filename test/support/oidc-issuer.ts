import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair, SignJWT, type JWK } from 'jose';

export type TokenClaims = {
  readonly sub: string;
  readonly audience: string;
  readonly email?: string;
  readonly emailVerified?: boolean;
  readonly name?: string;
  /** Negative: already expired. Default 3600. */
  readonly expiresInSeconds?: number;
  /** Default `at+jwt`; null leaves it out. */
  readonly typ?: string | null;
  readonly issuer?: string;
  /** Further header parameters, such as a `jku` that must be ignored. */
  readonly header?: Readonly<Record<string, unknown>>;
  /** Signs with a key that the issuer does not publish, under the current key's name. */
  readonly forged?: boolean;
};

export type OidcIssuer = AsyncDisposable & {
  readonly issuer: string;
  readonly jwksUrl: string;
  readonly mint: (claims: TokenClaims) => Promise<string>;
  /** From now on signs with a new key; those before stay published. */
  readonly rotate: () => Promise<void>;
  readonly stop: () => Promise<void>;
};

type SigningKey = {
  readonly kid: string;
  readonly privateKey: Awaited<ReturnType<typeof generateKeyPair>>['privateKey'];
  readonly jwk: JWK;
};

const ALGORITHM = 'ES256';

/** A small OpenID Connect issuer on loopback: real keys, discovery document, JWKS. */
export async function startOidcIssuer({ port = 0 }: { readonly port?: number } = {}): Promise<OidcIssuer> {
  let current = await newKey(1);
  const published: JWK[] = [current.jwk];
  const stranger = await newKey(0);
  const server = createServer((request, response) => {
    const document = documents()[request.url ?? ''];
    response.writeHead(document === undefined ? 404 : 200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(document ?? {}));
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const jwksUrl = `${issuer}/jwks.json`;

  function documents(): Record<string, unknown> {
    return {
      '/.well-known/openid-configuration': {
        issuer,
        jwks_uri: jwksUrl,
        response_types_supported: ['id_token'],
        subject_types_supported: ['public'],
        id_token_signing_alg_values_supported: [ALGORITHM],
      },
      '/jwks.json': { keys: published },
    };
  }

  const stop = async (): Promise<void> => {
    if (!server.listening) return;
    server.close();
    server.closeAllConnections();
    await once(server, 'close');
  };

  return {
    issuer,
    jwksUrl,
    mint(claims) {
      const now = Math.floor(Date.now() / 1000);
      const { email, emailVerified, name, typ = 'at+jwt', forged = false } = claims;
      return new SignJWT({
        ...(email === undefined ? {} : { email, email_verified: emailVerified ?? false }),
        ...(name === undefined ? {} : { name }),
      })
        .setProtectedHeader({
          ...claims.header,
          alg: ALGORITHM,
          kid: current.kid,
          ...(typ === null ? {} : { typ }),
        })
        .setIssuer(claims.issuer ?? issuer)
        .setAudience(claims.audience)
        .setSubject(claims.sub)
        .setIssuedAt(now)
        .setExpirationTime(now + (claims.expiresInSeconds ?? 3600))
        .sign((forged ? stranger : current).privateKey);
    },
    async rotate() {
      current = await newKey(published.length + 1);
      published.push(current.jwk);
    },
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

async function newKey(number: number): Promise<SigningKey> {
  const { privateKey, publicKey } = await generateKeyPair(ALGORITHM);
  const kid = `key-${number}`;
  return { kid, privateKey, jwk: { ...(await exportJWK(publicKey)), kid, alg: ALGORITHM, use: 'sig' } };
}
