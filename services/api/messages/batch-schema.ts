import { z } from 'zod';
import { AppError, ERROR_CODES, validationFailed, type ErrorCode } from '#core/domain/fault/app-error.ts';
import { BATCH_MODES, ITEM_DETAILS_MAX, WHOLE_ITEM } from '#core/domain/message/batch-answer.ts';
import { LIMIT_BOUNDS } from '#core/domain/tenant/limit-bounds.ts';
import type { Warning } from '#core/domain/fault/warning.ts';
import { caseAliasesOf, resolveAliases } from '../http/input/case-aliases.ts';
import { inputReader } from '../http/input/read-input.ts';
import { ErrorDetail, ReachedLimit } from '../http/errors.ts';
import { warningsField } from '../http/routes/request-warnings.ts';
import { idempotencyKeyField } from '../http/routes/idempotency.ts';
import { ACCEPTED_EXAMPLE, AcceptedMessage } from './accepted-message.ts';
import { SEND_MESSAGE_EXAMPLES } from './send-message-examples.ts';
import { SendMessage } from './send-message-schema.ts';

/** An item after parsing: a message, what was sent of it and warnings about it, or the fault found in it. */
export type BatchItem =
  | { readonly message: SendMessage; readonly sent: unknown; readonly warnings: readonly Warning[] }
  | { readonly fault: AppError };

const read = inputReader(SendMessage, 'body', 'POST');
const aliases = caseAliasesOf(SendMessage);

/** Reads one item by the rules of a single message, but without attachments, which are too large for a batch. */
export function readItem(sent: unknown): BatchItem {
  if (typeof sent !== 'object' || sent === null || Array.isArray(sent)) {
    const message = 'Message must be a JSON object';
    const details = [{ field: WHOLE_ITEM, rule: 'type', message }];
    return { fault: new AppError('validation_failed', { message, details }) };
  }
  const result = read(sent);
  if ('error' in result) return { fault: result.error as AppError };
  const message = result.value as SendMessage;
  if (message.channel === 'email' && (message.attachments?.length ?? 0) > 0) {
    const text = 'Is not taken in a batch: send the message by itself';
    return { fault: validationFailed({ field: 'attachments', rule: 'unsupported', message: text }) };
  }
  return { message, sent: result.sent, warnings: result.warnings };
}

/**
 * Returns what is compared between two batches under one idempotency key: the request alone, in one spelling. Defaults and
 * validation results may change between the releases that answer the original and its repetition.
 */
export function fingerprintedBatch(sent: unknown): unknown {
  const { messages, ...rest } = sent as Pick<SendBatch, 'messages'>;
  return { ...rest, messages: messages.map(inOneSpelling) };
}

/** Returns whether a message of a batch has an idempotency key of its own, in either spelling. */
export function hasOwnKey(sent: unknown): boolean {
  return typeof sent === 'object' && sent !== null && ('idempotencyKey' in sent || 'idempotency_key' in sent);
}

function inOneSpelling(sent: unknown): unknown {
  try {
    return resolveAliases(aliases, sent).value;
  } catch {
    // The item contains both spellings of a field with different values.
    return sent;
  }
}

/**
 * The body of `POST /v1/messages/batch`. The handler parses the items after it has checked the tenant's limit on their number. A
 * faulty item does not make the body invalid: `mode` decides the result.
 */
export const SendBatch = z
  .object({
    mode: z
      .enum(BATCH_MODES)
      .default('permissive')
      .describe(
        '`permissive`: each message has its own result. `strict`: all or none, and every fault is listed.',
      ),
    messages: z
      .array(z.unknown().meta({ $ref: '#/components/schemas/SendMessageInput' }))
      .min(1)
      .max(LIMIT_BOUNDS.batchMessagesMax.max)
      .describe(
        'Messages as for `POST /v1/messages`, without attachments; an `idempotencyKey` of a message counts as a key of that call. At most `batchMessagesMax` of the plan.',
      ),
    idempotencyKey: idempotencyKeyField,
  })
  .meta({
    id: 'SendBatch',
    description: 'Messages to send with one request.',
    examples: [
      { mode: 'permissive', messages: [SEND_MESSAGE_EXAMPLES.sms.value, SEND_MESSAGE_EXAMPLES.push.value] },
    ],
  });
export type SendBatch = {
  readonly mode: (typeof BATCH_MODES)[number];
  /** As sent. */
  readonly messages: readonly unknown[];
};

const BatchItemError = z
  .object({
    statusCode: z
      .int()
      .min(400)
      .max(599)
      .describe('Status code that the message would have got in a single call.'),
    code: z.enum(ERROR_CODES as [ErrorCode, ...ErrorCode[]]).describe('For programs; does not change.'),
    message: z.string().describe('For people; may change.'),
    details: z.array(ErrorDetail).max(ITEM_DETAILS_MAX).optional().describe('The first faults, by field.'),
    limit: ReachedLimit.optional(),
    retryAfter: z
      .int()
      .min(1)
      .max(86_400)
      .optional()
      .describe('Seconds. Present if the message may be accepted later.'),
  })
  .meta({ id: 'BatchItemError', description: 'Why a message of a batch was not accepted.' });

const BatchItemResult = AcceptedMessage.partial()
  .extend({
    index: z
      .int()
      .min(0)
      .max(LIMIT_BOUNDS.batchMessagesMax.max)
      .describe('Position of the message in the request.'),
    replayed: z
      .boolean()
      .optional()
      .describe(
        "True if the message's own idempotency key was used before: this is the earlier answer. Else absent.",
      ),
    error: BatchItemError.optional().describe('Present if the message was not accepted. Else absent.'),
  })
  .meta({
    id: 'BatchItemResult',
    description: 'Result of one message: the answer to a single message, or its error.',
  });

export const AcceptedBatch = z
  .object({
    batchId: z.uuid().describe('Contained in each message of the batch, and a filter of the message list.'),
    items: z
      .array(BatchItemResult)
      .max(LIMIT_BOUNDS.batchMessagesMax.max)
      .describe('In the order of the request.'),
    ...warningsField,
  })
  .meta({
    id: 'AcceptedBatch',
    description: 'The result of each message of a batch.',
    examples: [
      {
        batchId: '5d6a3b1e-7c2f-4e8a-9b0d-1f2e3a4b5c6d',
        items: [
          { index: 0, ...ACCEPTED_EXAMPLE },
          {
            index: 1,
            error: {
              statusCode: 400,
              code: 'missing_field',
              message: "Field 'to' is required",
              details: [{ field: 'to', rule: 'required', message: "Field 'to' is required" }],
            },
          },
        ],
      },
    ],
  });
export type AcceptedBatch = z.output<typeof AcceptedBatch>;
