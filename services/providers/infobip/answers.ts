import { z } from 'zod';
import type { Outcome } from '#core/domain/outcome.ts';
import {
  classify,
  parseJson,
  permanent,
  refused,
  type ClassifiedError,
  type ErrorMeaning,
  type Response,
  type VendorError,
} from '../classify-error.ts';
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
/** SMS and templates come in a list of one, other WhatsApp messages by themselves. */
const Answer = z.union([
  z.looseObject({ messages: z.tuple([Taken], z.unknown()) }).transform(({ messages }) => messages[0]),
  Taken,
]);

const Violation = z.looseObject({ property: z.string().catch(''), violation: z.string().catch('') });
/** Of the newer resources, and of the older ones. */
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

/** What became of the one message of a request; undefined where it is not the API that speaks. */
export function readTaken(response: Response): Taken | undefined {
  return Answer.safeParse(parseJson(response.text)).data;
}

const [UNDELIVERABLE, EXPIRED, REJECTED] = [2, 4, 5];
const GROUPS: Readonly<Record<string, number>> = { UNDELIVERABLE, EXPIRED, REJECTED };

/** Whether a message with this status goes nowhere (any more). */
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

/** Infobip refuses single messages within a success. */
export function refusedMessage(
  response: Response,
  status: Status,
  hidden: readonly string[],
  now: number,
): Outcome {
  const vendorError = { providerCode: String(status.id), providerMessage: status.description ?? status.name };
  return refused(response, { meaning: meaningOfStatus(status), vendorError }, hidden, now);
}

/** Judges a response that is no success. */
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

/** Of any refusal of Infobip's API. */
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
