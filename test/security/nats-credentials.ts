import { createHash, randomUUID } from 'node:crypto';
import { nkeys } from '@nats-io/transport-node';

type KeyPair = ReturnType<typeof nkeys.createUser>;

/** An operator with one account: the server's configuration and the credentials of users. */
export type NatsOperator = {
  /** Lines for the configuration of a nats-server. */
  readonly config: string;
  /** Returns the text of a credentials file. @param seconds after which it expires. Default: never. */
  readonly userCredentials: (name: string, seconds?: number) => string;
};

export function createNatsOperator(): NatsOperator {
  const operator = nkeys.createOperator();
  const [account, system] = [nkeys.createAccount(), nkeys.createAccount()];
  const unlimited = {
    subs: -1,
    data: -1,
    payload: -1,
    imports: -1,
    exports: -1,
    wildcards: true,
    conn: -1,
    leaf: -1,
  };
  const accountToken = (of: KeyPair, name: string): string =>
    claim(operator, of, name, { type: 'account', version: 2, limits: unlimited });
  const operatorToken = claim(operator, operator, 'operator', {
    type: 'operator',
    version: 2,
    system_account: system.getPublicKey(),
  });
  return {
    config: [
      `operator: ${operatorToken}`,
      `system_account: ${system.getPublicKey()}`,
      'resolver: MEMORY',
      'resolver_preload {',
      `  ${account.getPublicKey()}: ${accountToken(account, 'despatch')}`,
      `  ${system.getPublicKey()}: ${accountToken(system, 'system')}`,
      '}',
    ].join('\n'),
    userCredentials(name, seconds) {
      const user = nkeys.createUser();
      const limits = { type: 'user', version: 2, subs: -1, data: -1, payload: -1 };
      return [
        '-----BEGIN NATS USER JWT-----',
        claim(account, user, name, limits, seconds),
        '------END NATS USER JWT------',
        '',
        '-----BEGIN USER NKEY SEED-----',
        Buffer.from(user.getSeed()).toString(),
        '------END USER NKEY SEED------',
        '',
      ].join('\n');
    },
  };
}

function claim(issuer: KeyPair, subject: KeyPair, name: string, nats: object, seconds?: number): string {
  const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');
  const claims = {
    jti: createHash('sha256').update(randomUUID()).digest('hex'),
    iat: Math.floor(Date.now() / 1000),
    ...(seconds === undefined ? {} : { exp: Math.floor(Date.now() / 1000) + seconds }),
    iss: issuer.getPublicKey(),
    sub: subject.getPublicKey(),
    name,
    nats,
  };
  const input = `${part({ typ: 'JWT', alg: 'ed25519-nkey' })}.${part(claims)}`;
  return `${input}.${Buffer.from(issuer.sign(Buffer.from(input))).toString('base64url')}`;
}
