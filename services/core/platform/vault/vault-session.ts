import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { epochMs, monotonicMs } from '#core/domain/clock.ts';
import { KeyringError, type VaultAuth } from './keyring.ts';
import type { Logger } from '../telemetry/logger.ts';
import { backoffMs } from '../process/pause.ts';
import type { VaultAnswer, VaultTransport } from './vault-transport.ts';

export type VaultSession = Disposable & {
  /**
   * Makes one call with a valid token; after a 403, once more with a new token.
   * @throws KeyringError `unavailable` without a login.
   */
  readonly withToken: (send: (token: string) => Promise<VaultAnswer>) => Promise<VaultAnswer>;
  readonly isLoggedIn: () => boolean;
};

export type VaultSessionOptions = {
  readonly auth: VaultAuth;
  readonly call: VaultTransport;
  readonly log: Logger;
  /** Called with the time at which the token expires, in seconds since the epoch; Infinity for one that never does. */
  readonly onTokenExpiry: (epochSeconds: number) => void;
};

type Token = {
  readonly text: string;
  /** By the clock that is never set back; Infinity for a token that never expires. */
  readonly expiresAt: number;
  /** Lifetime at login, in milliseconds. */
  readonly ttlMs: number;
  readonly isRenewable: boolean;
};

/** Minimum time between logins caused by refused calls, so that a policy that refuses a call does not cause a storm of logins. */
const RELOGIN_AFTER_REFUSAL_MS = 5_000;

const Auth = z.object({
  auth: z.object({ client_token: z.string().min(1), lease_duration: z.number(), renewable: z.boolean() }),
});
const Lookup = z.object({
  data: z.object({
    ttl: z.number(),
    renewable: z.boolean().optional(),
    expire_time: z.string().nullable().optional(),
  }),
});
const Renewal = z.object({ auth: z.object({ lease_duration: z.number(), renewable: z.boolean() }) });

/**
 * Opens a session that keeps a Vault token valid: it renews at two thirds of the lifetime, and logs in again if the token cannot
 * be renewed (batch tokens, maximum age reached) and after a refusal. All waiting callers share one login; failed logins back
 * off.
 */
export function openVaultSession({ auth, call, log, onTokenExpiry }: VaultSessionOptions): VaultSession {
  let token: Token | undefined;
  let loggingIn: Promise<Token> | undefined;
  let failures = 0;
  let notBefore = -Infinity;
  let refusedAt = -Infinity;
  let timer: NodeJS.Timeout | undefined;
  let isDisposed = false;

  const schedule = (delayMs: number, work: () => Promise<unknown>): void => {
    clearTimeout(timer);
    if (isDisposed) return;
    // Node fires at once for delays above 2^31 - 1.
    timer = setTimeout(() => void work().catch(() => undefined), Math.min(delayMs, 2 ** 31 - 1));
    timer.unref();
  };

  const take = (next: Token): void => {
    token = next;
    const leftMs = next.expiresAt - monotonicMs();
    onTokenExpiry((epochMs() + leftMs) / 1_000);
    if (Number.isFinite(leftMs)) schedule((leftMs * 2) / 3, refresh);
  };

  const logIn = async (): Promise<Token> => {
    const answer = await authenticate(auth, call);
    if ('error' in answer) {
      failures += 1;
      const delayMs = backoffMs(failures);
      notBefore = monotonicMs() + delayMs;
      schedule(delayMs, freshToken);
      log.warn({ method: auth.method, failures, reason: answer.error }, 'Could not log in to Vault');
      throw new KeyringError('unavailable', 'not logged in to Vault');
    }
    if (failures > 0) log.info({ method: auth.method }, 'Logged in to Vault again');
    failures = 0;
    take(answer);
    return answer;
  };

  const freshToken = (): Promise<Token> => {
    loggingIn ??= logIn().finally(() => {
      loggingIn = undefined;
    });
    return loggingIn;
  };

  const refresh = async (): Promise<void> => {
    const current = token;
    if (current === undefined || !current.isRenewable) return void (await freshToken());
    const { body } = await call({
      op: 'renew',
      method: 'POST',
      path: 'auth/token/renew-self',
      token: current.text,
    });
    const renewed = Renewal.safeParse(body).data?.auth;
    // Near the maximum age, Vault renews for ever shorter times; a new token lasts longer.
    if (renewed === undefined || renewed.lease_duration * 1_000 < current.ttlMs / 2)
      return void (await freshToken());
    // A login in the meantime has brought a newer token.
    if (token !== current) return;
    take({ ...current, expiresAt: expiry(renewed.lease_duration), isRenewable: renewed.renewable });
  };

  const currentToken = async (): Promise<Token> => {
    if (token !== undefined && token.expiresAt > monotonicMs()) return token;
    if (loggingIn === undefined && monotonicMs() < notBefore)
      throw new KeyringError('unavailable', 'not logged in to Vault');
    return freshToken();
  };

  void freshToken().catch(() => undefined);

  return {
    isLoggedIn: () => token !== undefined && token.expiresAt > monotonicMs(),
    async withToken(send) {
      const used = await currentToken();
      const answer = await send(used.text);
      if (answer.status !== 403) return answer;
      // Another caller may have logged in while the answer was under way.
      if (token === used) {
        if (monotonicMs() - refusedAt < RELOGIN_AFTER_REFUSAL_MS) return answer;
        refusedAt = monotonicMs();
        token = undefined;
      }
      const next = await currentToken();
      return send(next.text);
    },
    [Symbol.dispose]() {
      isDisposed = true;
      clearTimeout(timer);
    },
  };
}

async function authenticate(
  auth: VaultAuth,
  call: VaultTransport,
): Promise<Token | { readonly error: string }> {
  if (auth.method === 'token') return lookUp(auth, call);
  const request = await loginRequest(auth);
  if ('error' in request) return request;
  const answer = await call({ op: 'login', method: 'POST', ...request });
  const parsed = Auth.safeParse(answer.body);
  if (!parsed.success) return { error: answer.error === '' ? `status ${answer.status}` : answer.error };
  const { client_token: text, lease_duration: seconds, renewable } = parsed.data.auth;
  return toToken(text, seconds, renewable);
}

async function lookUp(
  auth: Extract<VaultAuth, { method: 'token' }>,
  call: VaultTransport,
): Promise<Token | { readonly error: string }> {
  const text = auth.tokenFile === undefined ? auth.token.reveal() : await readSecretFile(auth.tokenFile);
  if (text === null) return { error: 'the token file cannot be read' };
  const answer = await call({ op: 'lookup', method: 'GET', path: 'auth/token/lookup-self', token: text });
  const parsed = Lookup.safeParse(answer.body);
  if (!parsed.success) return { error: answer.error === '' ? `status ${answer.status}` : answer.error };
  const { ttl, renewable = false, expire_time: end = null } = parsed.data.data;
  // In its last second a token has a ttl of 0 too.
  if (end !== null && ttl <= 0) return { error: 'the token has expired' };
  return toToken(text, ttl, renewable);
}

type LoginRequest = { readonly path: string; readonly body: Readonly<Record<string, unknown>> };

async function loginRequest(
  auth: Exclude<VaultAuth, { method: 'token' }>,
): Promise<LoginRequest | { readonly error: string }> {
  const path = `auth/${auth.mount}/login`;
  if (auth.method === 'kubernetes') {
    const jwt = await readSecretFile(auth.tokenFile);
    return jwt === null
      ? { error: 'the service account token cannot be read' }
      : { path, body: { role: auth.role, jwt } };
  }
  const secretId =
    auth.secretIdFile === undefined ? auth.secretId.reveal() : await readSecretFile(auth.secretIdFile);
  if (secretId === null) return { error: 'the secret id file cannot be read' };
  return { path, body: { role_id: auth.roleId, secret_id: secretId } };
}

/** Mounted tokens are rotated while the process runs, so they are read at each login. */
async function readSecretFile(file: string): Promise<string | null> {
  const text = await readFile(file, 'utf8').catch(() => '');
  return text.trim() === '' ? null : text.trim();
}

function toToken(text: string, seconds: number, isRenewable: boolean): Token {
  return { text, expiresAt: expiry(seconds), ttlMs: seconds * 1_000, isRenewable };
}

/** Converts a lifetime; zero means a token that never expires, such as the root token. */
function expiry(seconds: number): number {
  return seconds === 0 ? Infinity : monotonicMs() + seconds * 1_000;
}
