import type { RateTaken } from '#core/store/tenants/directory.ts';
import { createRateMemory, type RateMemory } from '../caches/rate-memory.ts';

export type RateVerdict = {
  readonly passed: boolean;
  readonly remaining: number;
  /** Seconds until one more call would pass. */
  readonly retryAfter: number;
};

/**
 * Counts one call of a subject against its limit in any rolling minute.
 * @throws any error of the database.
 */
export type CountCall = (subject: string, limit: number) => Promise<RateVerdict>;

export type CallCounterDeps = {
  /** Counts calls together, and returns how many of them pass. */
  readonly takeRate: (subject: string, limit: number, calls: number) => Promise<RateTaken>;
  readonly memory?: RateMemory;
};

type Call = {
  readonly resolve: (verdict: RateVerdict) => void;
  readonly reject: (error: unknown) => void;
};

/**
 * Creates the counter. A subject has at most one statement under way: calls that come meanwhile are counted together by the
 * next one, and calls after a refusal are refused without any. So a flood of one subject takes one connection, and others'
 * calls do not wait behind it.
 */
export function createCallCounter({ takeRate, memory = createRateMemory() }: CallCounterDeps): CountCall {
  /** Calls that wait for the statement of their subject and limit. A key is present while one is under way. */
  const waiting = new Map<string, Call[]>();

  async function count(subject: string, limit: number, calls: readonly Call[]): Promise<void> {
    try {
      const { passed, remaining, retryAfter } = await takeRate(subject, limit, calls.length);
      if (passed < calls.length) memory.refused(subject, limit, retryAfter);
      for (const [nth, { resolve }] of calls.entries()) {
        const left = nth < passed ? remaining + passed - nth - 1 : 0;
        resolve({ passed: nth < passed, remaining: left, retryAfter });
      }
    } catch (error) {
      for (const { reject } of calls) reject(error);
    }
  }

  async function countAll(key: string, subject: string, limit: number, first: Call): Promise<void> {
    for (let calls: readonly Call[] = [first]; calls.length > 0; calls = waiting.get(key) ?? []) {
      waiting.set(key, []);
      await count(subject, limit, calls);
    }
    waiting.delete(key);
  }

  return async (subject, limit) => {
    const retryAfter = memory.retryAfter(subject, limit);
    if (retryAfter !== undefined) return { passed: false, remaining: 0, retryAfter };
    const { promise, resolve, reject } = Promise.withResolvers<RateVerdict>();
    const key = `${subject} ${limit}`;
    const others = waiting.get(key);
    if (others === undefined) void countAll(key, subject, limit, { resolve, reject });
    else others.push({ resolve, reject });
    return promise;
  };
}
