import type { ErrorCode } from '#core/domain/fault/app-error.ts';
import type { RejectionReason } from '#core/platform/telemetry/api-metrics.ts';

const REASONS: Partial<Record<ErrorCode, RejectionReason>> = {
  rate_limited: 'rate',
  daily_limit_reached: 'quota',
  backlog_full: 'quota',
  tenant_suspended: 'suspended',
  dependency_unavailable: 'dependency',
  internal_error: 'dependency',
};

/** Returns the reason by which metrics count a refused message; undefined for a fault of the request. */
export function rejectionReason(code: ErrorCode): RejectionReason | undefined {
  return REASONS[code];
}
