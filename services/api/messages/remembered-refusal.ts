import type { AppError } from '#core/domain/fault/app-error.ts';
import type { KeyCaller } from '../auth/auth.ts';
import type { RateMemory } from '../caches/rate-memory.ts';
import { rateHeaders } from '../http/rate-headers.ts';
import { sendsPerMinute } from './new-message.ts';
import { countedAgainst, refusalOf } from './refusal-of.ts';

/** Returns the refusal of a send whose key the database has just rate-limited; undefined where the database has to decide. */
export function rememberedRefusal(
  rateMemory: Pick<RateMemory, 'retryAfter'>,
  caller: KeyCaller,
): AppError | undefined {
  const limit = sendsPerMinute(caller);
  const retryAfter = rateMemory.retryAfter(caller.key.id, limit);
  if (retryAfter === undefined) return undefined;
  const headers = rateHeaders({ limit, remaining: 0, passed: false, retryAfter });
  return refusalOf('rate_limited', countedAgainst(caller), { retryAfter, headers });
}
