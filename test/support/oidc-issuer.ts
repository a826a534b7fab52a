import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { listenAddress } from '../../deploy/servers/ports.ts';
import { exportJWK, generateKeyPair, SignJWT, type JWK } from 'jose';

export type TokenClaims = {
  readonly sub: string;
  readonly audience: string;
  readonly email?: string;
  readonly emailVerified?: boolean;
  readonly name?: string;
  /** Negative: the token has already expired. Default 3600. */
  readonly expiresInSeconds?: number;
  /** Default `at+jwt`; null omits it. */
  readonly typ?: string | null;
  readonly issuer?: string;
  /** Further header parameters, such as a `jku` that must be ignored. */
  readonly header?: Readonly<Record<string, unknown>>;
  /** Signs with an unpublished key under the current key's id. */
  readonly forged?: boolean;
};

export type OidcIssuer = AsyncDisposable & {
  readonly issuer: string;
  /** The first URL of the keys. */
  readonly jwksUrl: string;
  readonly mint: (claims: TokenClaims) => Promise<string>;
  /** Signs with a new key from now on; the earlier keys stay published. */
  readonly rotate: () => Promise<void>;
  /** Publishes only the current key. */
  readonly retire: () => void;
  /** Publishes the keys at another URL. The previous one is not found any more, or keeps the keys that it had. */
  readonly moveKeys: (previous: 'gone' | 'left') => void;
  /** Returns the current signing key. */
  readonly current: () => SigningKey;
  /** Sets whether the keys are served, refused, answered with nonsense or never answered. */
  readonly behave: (as: Behaviour) => void;
  /** Returns how often the keys or the discovery document were requested. */
  readonly asked: () => number;
  readonly stop: () => Promise<void>;
};

export type SigningKey = {
  readonly kid: string;
  readonly privateKey: Awaited<ReturnType<typeof generateKeyPair>>['privateKey'];
  readonly jwk: JWK;
};

type Behaviour = 'well' | 'refusing' | 'nonsense' | 'silent';

export type IssuerOptions = {
  /** Address at which clients reach this machine. Default: loopback. */
  readonly host?: string;
  readonly port?: number;
  readonly algorithm?: 'ES256' | 'RS256';
  /** Whether each published key names its algorithm. Default true. */
  readonly namesAlgorithm?: boolean;
};

/** Starts a small OpenID Connect issuer with real keys, a discovery document and a JWKS. */
export async function startOidcIssuer(options: IssuerOptions = {}): Promise<OidcIssuer> {
  const { host = '127.0.0.1', port = 0, algorithm = 'ES256', namesAlgorithm = true } = options;
  const newKey = (number: number): Promise<SigningKey> => generateKey(number, algorithm, namesAlgorithm);
  let behaviour: Behaviour = 'well';
  let asked = 0;
  let keys = 1;
  let current = await newKey(1);
  let published: JWK[] = [current.jwk];
  let moves = 0;
  let keysPath = '/jwks.json';
  const left: Record<string, unknown> = {};
  const stranger = await newKey(0);
  const server = createServer((request, response) => {
    asked += 1;
    if (behaviour === 'silent') return;
    if (behaviour !== 'well') {
      response.writeHead(behaviour === 'refusing' ? 503 : 200).end('{"keys":[{"kty":"EC","kid":');
      return;
    }
    const document = documents()[request.url ?? ''];
    response.writeHead(document === undefined ? 404 : 200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(document ?? {}));
  });
  server.listen(port, listenAddress(host));
  await once(server, 'listening');
  const issuer = `http://${host}:${(server.address() as AddressInfo).port}`;
  const jwksUrl = `${issuer}${keysPath}`;

  function documents(): Record<string, unknown> {
    return {
      '/.well-known/openid-configuration': {
        issuer,
        jwks_uri: `${issuer}${keysPath}`,
        response_types_supported: ['id_token'],
        subject_types_supported: ['public'],
        id_token_signing_alg_values_supported: [algorithm],
      },
      ...left,
      [keysPath]: { keys: published },
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
          alg: algorithm,
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
      keys += 1;
      current = await newKey(keys);
      published.push(current.jwk);
    },
    retire() {
      published = [current.jwk];
    },
    moveKeys(previous) {
      if (previous === 'left') left[keysPath] = { keys: [...published] };
      moves += 1;
      keysPath = `/jwks-${moves}.json`;
    },
    current: () => current,
    behave(as) {
      behaviour = as;
    },
    asked: () => asked,
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

async function generateKey(number: number, algorithm: string, namesAlgorithm: boolean): Promise<SigningKey> {
  const { privateKey, publicKey } = await generateKeyPair(algorithm, { extractable: true });
  const kid = `key-${number}`;
  const jwk = { ...(await exportJWK(publicKey)), kid, use: 'sig' };
  return { kid, privateKey, jwk: namesAlgorithm ? { ...jwk, alg: algorithm } : jwk };
}
