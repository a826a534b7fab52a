import {
  createLocalJWKSet,
  createRemoteJWKSet,
  errors,
  jwtVerify,
  type JWTHeaderParameters,
  type JWTPayload,
  type JWTVerifyGetKey,
} from 'jose';
import { unavailable } from '#core/domain/app-error.ts';
import { DependencyError } from '#core/domain/dependency-error.ts';
import { Deadline } from '#core/platform/process/deadline.ts';
import type { Identity } from '#core/store/directory.ts';

export type OidcConfig = {
  /** Must match the tokens exactly. */
  readonly issuer: string;
  readonly audience: string;
  /** Absent: read from the issuer's discovery document. */
  readonly jwksUrl?: string | undefined;
  /** Accepted signature algorithms. Symmetric algorithms and `none` are never accepted. */
  readonly algorithms: readonly string[];
  /** Accepted values of the token's `typ`, in lower case. A token without one counts as `jwt`. */
  readonly tokenTypes: readonly string[];
};

/** @returns null for an invalid token. @throws AppError 503 while the issuer's keys are unavailable. */
export type VerifyToken = (token: string) => Promise<Identity | null>;

const FETCH_TIMEOUT_MS = 3_000;
/** Minimum interval between two key fetches, successful or not. */
const COOLDOWN_MS = 2_000;
const CLOCK_SKEW_S = 30;
const TOKEN_LENGTH_MAX = 16_384;

/**
 * Creates a verifier for the sign-in tokens of one OpenID Connect issuer. Keys come only from the issuer, never from a
 * token.
 */
export function createTokenVerifier(config: OidcConfig): VerifyToken {
  const findKey = issuerKeys(config);

  return async (token) => {
    if (token.length > TOKEN_LENGTH_MAX) return null;
    try {
      const { payload, protectedHeader } = await jwtVerify(token, findKey, {
        issuer: config.issuer,
        audience: config.audience,
        // Tests break this (mutant: token-algorithms): only the configured signature algorithms are accepted.
        algorithms: [...config.algorithms],
        clockTolerance: CLOCK_SKEW_S,
        requiredClaims: ['sub', 'exp'],
      });
      // Tests break this (mutant: token-type): tokens issued for another purpose are refused.
      const isGood = isAcceptedType(protectedHeader, config.tokenTypes) && !isFromTheFuture(payload);
      return isGood ? identityOf(config.issuer, payload) : null;
    } catch (error) {
      if (error instanceof DependencyError) throw unavailable(error);
      // Every other error is caused by the token itself.
      return null;
    }
  };
}

function isAcceptedType({ typ }: JWTHeaderParameters, accepted: readonly string[]): boolean {
  return accepted.includes((typ ?? 'jwt').toLowerCase().replace(/^application\//, ''));
}

/** The library checks `iat` only when a maximum token age is configured. */
function isFromTheFuture({ iat }: JWTPayload): boolean {
  return iat !== undefined && iat > Date.now() / 1000 + CLOCK_SKEW_S;
}

function identityOf(issuer: string, payload: JWTPayload): Identity | null {
  const subject = textOf(payload.sub, 255);
  if (subject === null || subject !== payload.sub) return null;
  return {
    issuer,
    subject,
    email: textOf(payload['email'], 320),
    emailVerified: payload['email_verified'] === true,
    name: textOf(payload['name'], 200),
  };
}

/** Claims are stored in the database: only valid text is kept, cut to the column's length. */
function textOf(claim: unknown, lengthMax: number): string | null {
  if (typeof claim !== 'string') return null;
  const text = claim.replaceAll('\0', '').toWellFormed().slice(0, lengthMax).toWellFormed();
  return text === '' ? null : text;
}

/**
 * Returns a lookup of the issuer's keys for a token. Fetches the keys again when they are ten minutes old or a token names
 * an unknown one. While the issuer is unavailable the last known keys stay valid, so its outage locks out nobody who could
 * sign in before. It is then asked every two seconds at most, and requests with known keys do not wait for the answer.
 */
function issuerKeys(config: OidcConfig): JWTVerifyGetKey {
  type Away = {
    readonly since: number;
    readonly cause: unknown;
    readonly lastSeen: JWTVerifyGetKey | undefined;
  };
  let remote: ReturnType<typeof createRemoteJWKSet> | undefined;
  let reloading: Promise<void> | undefined;
  let away: Away | undefined;

  const noteFailure = (cause: unknown): void => {
    const jwks = remote?.jwks();
    away = { since: Date.now(), cause, lastSeen: jwks && createLocalJWKSet(jwks) };
  };

  const reload = async (): Promise<void> => {
    try {
      remote ??= createRemoteJWKSet(new URL(config.jwksUrl ?? (await discoverJwksUrl(config.issuer))), {
        timeoutDuration: FETCH_TIMEOUT_MS,
        cooldownDuration: COOLDOWN_MS,
        cacheMaxAge: 600_000,
      });
      await remote.reload();
      away = undefined;
    } catch (error) {
      noteFailure(error);
    } finally {
      reloading = undefined;
    }
  };

  const ask: JWTVerifyGetKey = async (header, token) => {
    if (remote === undefined || away !== undefined) return findLastSeen(header, token);
    try {
      return await remote(header, token);
    } catch (error) {
      if (isTokensFault(error)) throw error;
      noteFailure(error);
      return findLastSeen(header, token);
    }
  };

  const findLastSeen: JWTVerifyGetKey = (header, token) => {
    if (away?.lastSeen !== undefined) return away.lastSeen(header, token);
    const options = { cause: away?.cause };
    throw new DependencyError('oidc', 'unavailable', 'the issuer gave no keys yet', options);
  };

  return async (header, token) => {
    const isDue = away === undefined ? remote === undefined : Date.now() - away.since >= COOLDOWN_MS;
    if (isDue) reloading ??= reload();
    if (away?.lastSeen === undefined) await reloading;
    return ask(header, token);
  };
}

function isTokensFault(error: unknown): boolean {
  return (
    error instanceof errors.JWKSNoMatchingKey ||
    error instanceof errors.JWKSMultipleMatchingKeys ||
    error instanceof errors.JOSENotSupported
  );
}

async function discoverJwksUrl(issuer: string): Promise<string> {
  using deadline = new Deadline(FETCH_TIMEOUT_MS);
  const response = await fetch(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`, {
    signal: deadline.signal,
    redirect: 'error',
  });
  if (!response.ok) throw new Error(`the issuer's discovery document answered ${response.status}`);
  const document = (await response.json()) as { issuer?: unknown; jwks_uri?: unknown };
  if (document.issuer !== issuer || typeof document.jwks_uri !== 'string') {
    throw new Error("the issuer's discovery document is not its own");
  }
  return document.jwks_uri;
}
