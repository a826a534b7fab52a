import {
  createLocalJWKSet,
  createRemoteJWKSet,
  customFetch,
  errors,
  jwtVerify,
  type JWTHeaderParameters,
  type JWTPayload,
  type JWTVerifyGetKey,
} from 'jose';
import { monotonicMs } from '#core/domain/clock.ts';
import { unavailable } from '#core/domain/fault/app-error.ts';
import { DependencyError } from '#core/domain/fault/dependency-error.ts';
import type { Identity } from '#core/store/tenants/directory.ts';
import { discoveryUrl, fetchDiscovered } from './discover-keys.ts';

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

/** Of one fetch of the keys, with the discovery document before them. */
const FETCH_TIMEOUT_MS = 3_000;
/** Minimum interval between two key fetches, successful or not. */
const COOLDOWN_MS = 2_000;
const CLOCK_SKEW_S = 30;
const TOKEN_LENGTH_MAX = 16_384;

/**
 * Creates a verifier for the sign-in tokens of one OpenID Connect issuer. Keys come only from the issuer, never from a
 * token.
 * @param onKeyError called once for each failed fetch of the keys: while the last known ones are valid, no answer shows it.
 */
export function createTokenVerifier(
  config: OidcConfig,
  onKeyError: (cause: unknown) => void = () => {},
): VerifyToken {
  const findKey = issuerKeys(config, onKeyError);

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
  const email = textOf(payload['email'], 320);
  return {
    issuer,
    subject,
    email,
    // What the issuer verified is the address as it stands in the claim: without its NUL it may be another person's.
    emailVerified: payload['email_verified'] === true && email === payload['email'],
    name: textOf(payload['name'], 200),
  };
}

/** Claims are stored in the database: only valid text is kept, cut to the column's length. */
function textOf(claim: unknown, lengthMax: number): string | null {
  if (typeof claim !== 'string') return null;
  const text = claim.replaceAll('\0', '').toWellFormed().slice(0, lengthMax).toWellFormed();
  return text === '' ? null : text;
}

/** The last fetch of the keys failed. */
type Away = {
  /** By the clock that is never set back. */
  readonly since: number;
  readonly cause: unknown;
  /** Undefined if no fetch ever succeeded. */
  readonly lastSeen: JWTVerifyGetKey | undefined;
};

/**
 * Returns a lookup of the issuer's keys for a token. Fetches the keys again when they are ten minutes old or a token names
 * an unknown one. While the issuer is unavailable the last known keys stay valid, so its outage locks out nobody who could
 * sign in before. It is then asked every two seconds at most, and requests with known keys do not wait for the answer.
 */
function issuerKeys(config: OidcConfig, onKeyError: (cause: unknown) => void): JWTVerifyGetKey {
  const remote = createRemoteJWKSet(new URL(config.jwksUrl ?? discoveryUrl(config.issuer)), {
    timeoutDuration: FETCH_TIMEOUT_MS,
    cooldownDuration: COOLDOWN_MS,
    cacheMaxAge: 600_000,
    ...(config.jwksUrl === undefined ? { [customFetch]: fetchDiscovered(config.issuer) } : {}),
  });
  let reloading: Promise<void> | undefined;
  let away: Away | undefined;

  const noteFailure = (cause: unknown): Away => {
    // Calls that waited for the same fetch get the same error.
    if (cause !== away?.cause) onKeyError(cause);
    const jwks = remote.jwks();
    away = { since: monotonicMs(), cause, lastSeen: jwks && createLocalJWKSet(jwks) };
    return away;
  };

  const reload = async (): Promise<void> => {
    try {
      await remote.reload();
      away = undefined;
    } catch (error) {
      noteFailure(error);
    } finally {
      reloading = undefined;
    }
  };

  const ask: JWTVerifyGetKey = async (header, token) => {
    if (away !== undefined) return amongLastSeen(away)(header, token);
    try {
      return await remote(header, token);
    } catch (error) {
      if (isTokensFault(error)) throw error;
      return amongLastSeen(noteFailure(error))(header, token);
    }
  };

  return async (header, token) => {
    if (away !== undefined && monotonicMs() - away.since >= COOLDOWN_MS) reloading ??= reload();
    if (away !== undefined && away.lastSeen === undefined) await reloading;
    return ask(header, token);
  };
}

/** @throws DependencyError also for an unknown key: the issuer may have published it since. */
function amongLastSeen({ cause, lastSeen }: Away): JWTVerifyGetKey {
  return async (header, token) => {
    try {
      if (lastSeen !== undefined) return await lastSeen(header, token);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw error;
    }
    throw new DependencyError('oidc', 'unavailable', 'the issuer gives no keys', { cause });
  };
}

function isTokensFault(error: unknown): boolean {
  return (
    error instanceof errors.JWKSNoMatchingKey ||
    error instanceof errors.JWKSMultipleMatchingKeys ||
    error instanceof errors.JOSENotSupported
  );
}
