import type { KeyObject } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import { validationFailed } from '#core/domain/fault/app-error.ts';
import type { Warnings } from '#core/domain/fault/warning.ts';
import type { Caller } from '../../auth/auth.ts';
import { isGivenTwice } from '../input/given-twice.ts';
import { idempotencyClaim, idempotencyKeyOf, type IdempotencyClaim } from './idempotency.ts';
import { inputOf } from '../input/parsed-input.ts';

/**
 * Returns a request's idempotency key in a comparable form; null without a key.
 * @param fingerprintKey HMAC key of the body's fingerprint.
 * @throws AppError when the key is malformed, given twice, or not the same in header and body.
 */
export function requestClaim(
  fingerprintKey: KeyObject,
  request: FastifyRequest,
  route: {
    readonly path: string;
    readonly fingerprinted: (sent: unknown) => unknown;
    readonly warnings: Warnings;
  },
): IdempotencyClaim | null {
  const field = (request.body as { idempotencyKey?: unknown } | null | undefined)?.idempotencyKey;
  // Node would join the two headers into one key.
  if (isGivenTwice(request.raw, 'idempotency-key')) {
    const message = 'Must be given once';
    throw validationFailed({ field: 'Idempotency-Key', rule: 'single', message });
  }
  const key = idempotencyKeyOf(request.headers['idempotency-key'], field);
  if (key === null) return null;
  return idempotencyClaim(fingerprintKey, {
    owner: keyOwnerOf(request.caller),
    method: request.method,
    route: route.path,
    key,
    params: request.params,
    // Without the defaults and conversions of this release: another one may have answered the original request.
    body: route.fingerprinted(withoutKey(inputOf(request.body).sent)),
    warnings: route.warnings,
  });
}

/**
 * Returns the owner of a caller's idempotency keys. Test keys have an owner of their own: the stored answer of a test call must
 * never replace a live send.
 */
export function keyOwnerOf(caller: Caller | null): string {
  if (caller === null) return '';
  if (caller.kind === 'key' && caller.key.mode === 'test') return `${caller.tenant.id} test`;
  // Tests break this (mutant: idempotency-owner): a stored response is replayed to its own tenant only.
  return caller.kind === 'user' ? caller.user.id : caller.tenant.id;
}

/** Returns a body without its idempotency key. */
export function withoutKey(body: unknown): unknown {
  if (typeof body !== 'object' || body === null || !Object.hasOwn(body, 'idempotencyKey')) return body;
  const { idempotencyKey: _, ...rest } = body as Record<string, unknown>;
  return rest;
}
