import { z } from 'zod';
import type { Outcome } from '#core/domain/sending/outcome.ts';
import {
  classify,
  parseJson,
  permanent,
  type ClassifiedError,
  type ErrorMeaning,
  type Response,
  type VendorError,
} from '../classify-error.ts';
import { outcomeOfRefusal } from '../outcome-of-send.ts';
import { meaningOfFields, REQUEST_CODES, STATUS_CODES } from './outcomes.ts';

export const Status = z.looseObject({
  groupId: z.int().optional().catch(undefined),
  groupName: z.string().optional().catch(undefined),
  id: z.int(),
  name: z.string().catch(''),
  description: z.string().optional().catch(undefined),
});
export type Status = z.output<typeof Status>;

const Taken = z.looseObject({ messageId: z.string().min(1), status: Status });
export type Taken = z.output<typeof Taken>;
/** SMS and template sends return a list with one entry, other WhatsApp sends a single object. */
const Answer = z.union([
  z.looseObject({ messages: z.tuple([Taken], z.unknown()) }).transform(({ messages }) => messages[0]),
  Taken,
]);

const Violation = z.looseObject({ property: z.string().catch(''), violation: z.string().catch('') });
/** The error formats of the newer and the older resources. */
const ErrorBody = z.looseObject({
  errorCode: z.string().optional().catch(undefined),
  description: z.string().optional().catch(undefined),
  violations: z.array(Violation).catch([]),
  requestError: z
    .looseObject({
      serviceException: z.looseObject({
        messageId: z.string().optional().catch(undefined),
        text: z.string().optional().catch(undefined),
        validationErrors: z.record(z.string(), z.unknown()).catch({}),
      }),
    })
    .optional()
    .catch(undefined),
});

/** Reads the result of the request's single message; undefined when the response is not from the API. */
export function readTaken(response: Response): Taken | undefined {
  return Answer.safeParse(parseJson(response.text)).data;
}

const [UNDELIVERABLE, EXPIRED, REJECTED] = [2, 4, 5];
const GROUPS: Readonly<Record<string, number>> = { UNDELIVERABLE, EXPIRED, REJECTED };

/** Returns whether a message with this status was not delivered and never will be. */
export function isFailed(status: Status): boolean {
  const group = groupOf(status);
  return group === undefined
    ? Object.hasOwn(STATUS_CODES, status.id)
    : [UNDELIVERABLE, EXPIRED, REJECTED].includes(group);
}

export function isRejected(status: Status): boolean {
  return groupOf(status) === REJECTED;
}

function groupOf({ groupId, groupName = '' }: Status): number | undefined {
  return groupId ?? GROUPS[groupName];
}

export function meaningOfStatus({ id }: Status): ErrorMeaning {
  return STATUS_CODES[String(id)] ?? permanent('unknown', 'rejected');
}

/** Infobip can refuse a single message inside a success response. */
export function refusedMessage(
  response: Response,
  status: Status,
  hidden: readonly string[],
  now: number,
): Outcome {
  const vendorError = { providerCode: String(status.id), providerMessage: status.description ?? status.name };
  return outcomeOfRefusal(response, { meaning: meaningOfStatus(status), vendorError }, hidden, now);
}

/** Classifies a non-success response. */
export function judge(response: Response): ClassifiedError {
  const classified = classify(response, REQUEST_CODES, readError);
  if (response.status !== 400 || classified.meaning.class !== 'unknown') return classified;
  const body = ErrorBody.safeParse(parseJson(response.text)).data;
  const paths = [
    ...(body?.violations ?? []).map(({ property }) => property),
    ...Object.keys(body?.requestError?.serviceException.validationErrors ?? {}),
  ];
  return { ...classified, meaning: meaningOfFields(paths) ?? classified.meaning };
}

/** Reads the code and text of any refusal by Infobip's API. */
export function readError(body: unknown): VendorError {
  const { errorCode, description, violations, requestError } = ErrorBody.safeParse(body).data ?? {};
  const exception = requestError?.serviceException;
  const violation = violations?.find((one) => one.violation !== '')?.violation;
  return {
    providerCode: errorCode ?? exception?.messageId,
    providerMessage: violation ?? description ?? textOf(exception),
  };
}

function textOf(
  exception: { text?: string | undefined; validationErrors: Record<string, unknown> } | undefined,
): string | undefined {
  const [found] = Object.values(exception?.validationErrors ?? {}).flat();
  return typeof found === 'string' ? found : exception?.text;
}
