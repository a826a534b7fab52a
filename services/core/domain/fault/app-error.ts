/** Every error code that a client can receive, with its text. Clients depend on the code; texts may change. */
const TEXTS = {
  validation_failed: 'Request validation failed',
  missing_field: 'A required field is missing',
  malformed_json: 'Request body is not valid JSON',
  provider_not_configured: 'No provider is configured',
  idempotency_key_conflict: 'Idempotency-Key header and idempotency_key field are different',
  tenant_required: 'Header X-Tenant-Slug is required',
  invalid_cursor: 'Cursor is not valid for this list',
  url_blocked: 'URL is not allowed',
  unauthenticated: 'Missing or invalid authentication',
  api_key_expired: 'API key is expired',
  api_key_revoked: 'API key is revoked',
  api_key_rotated: 'API key has a new secret; this one is no longer good',
  tenant_suspended: 'Tenant is suspended',
  insufficient_role: 'Role is not sufficient',
  insufficient_scope: 'API key lacks the required scope',
  plan_limit_reached: 'Limit of the plan is reached',
  not_found: 'Resource not found',
  route_not_found: 'Route not found',
  method_not_allowed: 'Method not allowed',
  payload_too_large: 'Request is too large',
  unsupported_media_type: 'Content-Type must be application/json',
  slug_taken: 'Slug is already taken',
  idempotency_mismatch: 'Idempotency key was used with a different payload',
  not_cancelable: 'Message can no longer be canceled',
  invalid_state: 'Resource is in a state that does not allow this',
  last_owner: 'The last owner cannot leave or get another role: first make another signed-in member an owner',
  managed_by_cluster: 'Tenant is managed by a cluster resource',
  version_mismatch: 'Resource was changed since the version that you sent',
  rate_limited: 'Rate limit exceeded',
  daily_limit_reached: 'Daily message limit reached',
  backlog_full: 'Too many messages are waiting',
  internal_error: 'Internal error',
  dependency_unavailable: 'Service is temporarily unavailable',
} as const;

export type ErrorCode = keyof typeof TEXTS;
export const ERROR_CODES = Object.keys(TEXTS) as ErrorCode[];

/** One violated rule. The message states the rule and never repeats a value. */
export type ErrorDetail = { readonly field: string; readonly rule: string; readonly message: string };

/** A limit's name, in plans and keys if it is part of them, and its value. */
export type NamedLimit = { readonly name: string; readonly value: number };

export type AppErrorOptions = ErrorOptions & {
  /** Replaces the code's text. It is sent to the client and must contain nothing internal. */
  readonly message?: string;
  readonly details?: readonly ErrorDetail[];
  /** Seconds, at least 1. */
  readonly retryAfter?: number;
  /** Additional response headers, names in lower case. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The limit that was reached, if that is the reason. */
  readonly limit?: NamedLimit;
  /** Refused under overload: not a fault, and too frequent to be logged as one. */
  readonly isShed?: true;
};

/** An expected refusal. Its message is meant for the client, its cause for the log. */
export class AppError extends Error {
  override readonly name = 'AppError';
  readonly code: ErrorCode;
  readonly details: readonly ErrorDetail[] | undefined;
  readonly retryAfter: number | undefined;
  readonly headers: Readonly<Record<string, string>> | undefined;
  readonly limit: NamedLimit | undefined;
  readonly isShed: boolean;

  constructor(code: ErrorCode, options: AppErrorOptions = {}) {
    super(options.message ?? TEXTS[code], options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.details = options.details;
    this.retryAfter = options.retryAfter;
    this.headers = options.headers;
    this.limit = options.limit;
    this.isShed = options.isShed ?? false;
  }
}

/** Returns the error for a limit that was reached, temporarily or permanently; the message names the limit. */
export function limitReached(
  code: 'rate_limited' | 'daily_limit_reached' | 'backlog_full' | 'plan_limit_reached',
  limit: NamedLimit,
  options: Omit<AppErrorOptions, 'message' | 'limit'> = {},
): AppError {
  return new AppError(code, {
    ...options,
    limit,
    message: `${TEXTS[code]}: limit '${limit.name}' of ${limit.value} is reached`,
  });
}

/** Returns the error for faulty credentials. `why` must contain only facts that anyone may know. */
export function unauthenticated(why: string): AppError {
  return new AppError('unauthenticated', { message: `${TEXTS.unauthenticated}: ${why}` });
}

export function validationFailed(...details: readonly ErrorDetail[]): AppError {
  return new AppError('validation_failed', { details });
}

/** Returns the same error for a resource that does not exist and for one of another tenant. */
export function notFound(): AppError {
  return new AppError('not_found');
}

/** Returns what was looked up. @throws AppError `not_found` if there is no such thing. */
export function orNotFound<T>(value: T | undefined): T {
  if (value === undefined) throw notFound();
  return value;
}

/** Returns the error for a dependency of the service that does not answer; the client may retry in a moment. */
export function unavailable(cause?: unknown): AppError {
  return new AppError('dependency_unavailable', { retryAfter: 5, cause });
}

/**
 * Returns the error for a request that is refused because too many are under way.
 * @param retryAfter seconds.
 */
export function overloaded(retryAfter: number, message?: string): AppError {
  const shed = { retryAfter, isShed: true } as const;
  return new AppError('dependency_unavailable', message === undefined ? shed : { ...shed, message });
}
