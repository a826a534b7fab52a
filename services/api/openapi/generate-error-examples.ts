import {
  AppError,
  ERROR_CODES,
  limitReached,
  type ErrorCode,
  type ErrorDetail,
} from '#core/domain/fault/app-error.ts';
import { STATUS } from '../http/errors.ts';

/** What an answer with this code contains besides the code. */
const PARTICULARS: Partial<
  Record<ErrorCode, { readonly message?: string; readonly details?: readonly ErrorDetail[] }>
> = {
  validation_failed: {
    details: [{ field: 'to', rule: 'e164', message: 'Must be an E.164 phone number' }],
  },
  missing_field: {
    message: "Field 'to' is required",
    details: [{ field: 'to', rule: 'required', message: "Field 'to' is required" }],
  },
  provider_not_configured: { message: "No provider is configured for channel 'sms'" },
  insufficient_role: { message: "Role 'admin' is required" },
};

/** The errors that name the limit that is reached. */
const LIMITS = {
  rate_limited: { name: 'sendRequestsPerMinute', value: 6_000 },
  daily_limit_reached: { name: 'messagesPerDay', value: 10_000 },
  backlog_full: { name: 'backlogMax', value: 100_000 },
  plan_limit_reached: { name: 'apiKeysMax', value: 20 },
} as const;

function exampleOf(code: ErrorCode): AppError {
  return code in LIMITS
    ? limitReached(code as keyof typeof LIMITS, LIMITS[code as keyof typeof LIMITS])
    : new AppError(code, PARTICULARS[code]);
}

type Example = { readonly summary: string; readonly value: unknown };

/** Returns one error example for each code that these answers refer to, for the document's components. */
export function errorExamples(answers: unknown): Record<string, Example> {
  const text = JSON.stringify(answers);
  return Object.fromEntries(
    ERROR_CODES.filter((code) => text.includes(`"#/components/examples/${code}"`)).map(
      (code): [string, Example] => {
        const { message, details, limit } = exampleOf(code);
        const value = {
          statusCode: STATUS[code],
          timestamp: '2026-01-15T09:30:00.000Z',
          path: '/v1/messages',
          message,
          code,
          requestId: '6f1f9c1e-7a52-4d8e-9a3b-0c5d2e4f6a7b',
          ...(details === undefined ? {} : { details }),
          ...(limit === undefined ? {} : { limit }),
        };
        return [code, { summary: message, value }];
      },
    ),
  );
}
