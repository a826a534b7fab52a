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
  /** Exactly as in the tokens. */
  readonly issuer: string;
  readonly audience: string;
  /** Absent: found through the issuer's discovery document. */
  readonly jwksUrl?: string | undefined;
  /** Signature algorithms that are accepted. Symmetric ones and `none` never are. */
  readonly algorithms: readonly string[];
  /** Accepted values of the token's `typ`, in lower case. A token without one counts as `jwt`. */
  readonly tokenTypes: readonly string[];
};

/** @returns null for a token that proves nothing. @throws AppError 503 while the issuer's keys cannot be had. */
export type VerifyToken = (token: string) => Promise<Identity | null>;

const FETCH_TIMEOUT_MS = 3_000;
/** Between two questions for keys, whether the first was answered or not. */
const COOLDOWN_MS = 2_000;
const CLOCK_SKEW_S = 30;
const TOKEN_LENGTH_MAX = 16_384;

/** Verifies sign-in tokens of one OpenID Connect issuer. Keys come from the issuer alone, never from a token. */
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
      // Whatever else a token brings about is the token's own fault.
      return null;
    }
  };
}

function isAcceptedType({ typ }: JWTHeaderParameters, accepted: readonly string[]): boolean {
  return accepted.includes((typ ?? 'jwt').toLowerCase().replace(/^application\//, ''));
}

/** The library looks at `iat` only where tokens have a greatest age. */
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

/** Claims go into the database: only text that it can hold, cut to its place. */
function textOf(claim: unknown, lengthMax: number): string | null {
  if (typeof claim !== 'string') return null;
  const text = claim.replaceAll('\0', '').toWellFormed().slice(0, lengthMax).toWellFormed();
  return text === '' ? null : text;
}

/**
 * Finds the issuer's key for a token. Keys are fetched again when they are ten minutes old or a token names an unknown
 * one. While the issuer is away those last seen stay good: its outage locks nobody out who could sign in before. It is
 * then asked again every two seconds at most, and nobody who has keys to go by waits for the answer.
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
