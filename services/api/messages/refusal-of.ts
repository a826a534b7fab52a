import {
  AppError,
  limitReached,
  type AppErrorOptions,
  type NamedLimit,
} from '#core/domain/fault/app-error.ts';
import type { RefusalVerdict } from '#core/domain/message/batch-answer.ts';
import { backlogLimit, dailyLimit } from '#core/domain/tenant/mode-limits.ts';
import type { Limits } from '#core/domain/tenant/plan.ts';
import type { KeyCaller } from '../auth/auth.ts';
import { sendRateLimit } from './new-message.ts';

/** The limits that a message counts against. */
export type CountedAgainst = {
  readonly limits: Pick<Limits, 'messagesPerDay' | 'backlogMax'>;
  readonly isTest: boolean;
  /** The limit of the key that sends it; null for a member, whose messages count against none. */
  readonly rate: NamedLimit | null;
};

/** Returns the error for a message that the database did not accept. */
export function refusalOf(
  verdict: RefusalVerdict,
  { limits, isTest, rate }: CountedAgainst,
  options: Pick<AppErrorOptions, 'retryAfter' | 'headers'> = {},
): AppError {
  switch (verdict) {
    case 'mismatch':
      return new AppError('idempotency_mismatch');
    case 'suspended':
      return new AppError('tenant_suspended');
    case 'rate_limited':
      if (rate === null) throw new Error('a message of a member counts against no rate');
      return limitReached(verdict, rate, options);
    case 'daily_limit_reached':
      return limitReached(verdict, dailyLimit(limits, isTest), options);
    case 'backlog_full':
      return limitReached(verdict, backlogLimit(limits, isTest), options);
  }
}

export function countedAgainst(caller: KeyCaller): CountedAgainst {
  return {
    limits: caller.tenant.limits,
    isTest: caller.key.mode === 'test',
    rate: sendRateLimit(caller),
  };
}
