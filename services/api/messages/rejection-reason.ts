import type { ErrorCode } from '#core/domain/fault/app-error.ts';

const REASONS = {
  rate_limited: 'rate',
  daily_limit_reached: 'quota',
  backlog_full: 'quota',
  tenant_suspended: 'suspended',
  dependency_unavailable: 'dependency',
  internal_error: 'dependency',
} as const satisfies Partial<Record<ErrorCode, string>>;

export type RejectionReason = (typeof REASONS)[keyof typeof REASONS];

/** Returns the reason by which metrics count a refused message; undefined for a fault of the request. */
export function rejectionReason(code: ErrorCode): RejectionReason | undefined {
  return (REASONS as Partial<Record<ErrorCode, RejectionReason>>)[code];
}
