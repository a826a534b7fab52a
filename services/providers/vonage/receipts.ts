import { z } from 'zod';
import type { Failure } from '#core/domain/sending/failure.ts';
import { parseJson, type CodeTable } from '../classify-error.ts';
import {
  PROVIDER_STATUS_MAX,
  type ParsedCall,
  type ParsedReceipt,
  type ReceiptDefinition,
} from '../receipt.ts';
import { UNSIGNED } from '../signature.ts';
import { PROVIDER_CODE_MAX, vendorText } from '../vendor-text.ts';
import type { SignatureMethod } from './account.ts';
import { codeOfType } from './messages-api.ts';
import { MESSAGES_CODES, SMS_RECEIPT_CODES } from './outcomes.ts';
import { parametersOf, type Parameters } from './receipt-parameters.ts';
import { verifySignature } from './receipt-signature.ts';

type Config = {
  readonly apiKey: string;
  readonly signatureMethod?: SignatureMethod;
  readonly api?: 'messages' | 'sms';
  readonly applicationId?: string | undefined;
};
type Secrets = { readonly signatureSecret?: string | undefined };
type Told = Pick<ParsedReceipt, 'state' | 'failure' | 'engagement'>;

const code = z.union([z.string(), z.number()]).transform(String).optional().catch(undefined);
const MessageStatus = z.looseObject({
  message_uuid: z.string().min(1).max(200),
  status: z.string().min(1),
  client_ref: z.string().min(1).max(100).optional().catch(undefined),
  timestamp: z.string().optional().catch(undefined),
  /** The error number is at the end of `type`, in the title, or, in older receipts, a code. */
  error: z
    .looseObject({ type: z.string().optional().catch(undefined), title: code, code })
    .optional()
    .catch(undefined),
});

const definition: Omit<ReceiptDefinition<Config, Secrets>, 'setup'> = {
  headers: ['authorization', 'content-type'],

  async verify(call, { config, secrets }) {
    if (secrets.signatureSecret === undefined) return UNSIGNED;
    return verifySignature(call, secrets.signatureSecret, config.signatureMethod);
  },

  parse(call): ParsedCall {
    const body = call.method === 'POST' ? parseJson(Buffer.from(call.body).toString('utf8')) : undefined;
    const status = MessageStatus.safeParse(body).data;
    if (status !== undefined) return { kind: 'receipts', receipts: [messagesReceipt(status)] };
    const parameters = parametersOf(call);
    const receipt = smsReceipt(parameters);
    if (receipt !== undefined) return { kind: 'receipts', receipts: [receipt] };
    // An inbound message has an id and no status.
    const isOther = parameters.has('message_uuid') || parameters.has('messageId');
    return isOther ? { kind: 'receipts', receipts: [] } : { kind: 'unreadable' };
  },
};

const SIGNED =
  'For signed receipts, copy the signature secret from API settings of the Vonage dashboard to secretConfig.signatureSecret';

/**
 * The Messages API reports to the URL of a message only where the call speaks for an application: "basic authentication does not
 * support webhooks" (https://developer.vonage.com/en/getting-started/concepts/authentication).
 */
function isAutomaticFor({ api = 'messages', applicationId }: Config): boolean {
  return api === 'sms' || applicationId !== undefined;
}

export const vonageSmsReceipts: ReceiptDefinition<Config, Secrets> = {
  ...definition,
  isAutomaticFor,
  setup: {
    mode: 'automatic',
    steps: [
      'Each message carries the address of its receipts. With the Messages API that needs applicationId and privateKey, and an application whose Messages capability is on (Vonage dashboard, Applications).',
      `${SIGNED}. The Messages API signs by itself; for the SMS API, Vonage support has to switch signing on, and signatureMethod has to be that of the API settings.`,
    ],
  },
};

export const vonageWhatsappReceipts: ReceiptDefinition<Config, Secrets> = {
  ...definition,
  isAutomaticFor,
  engagement: ['read'],
  setup: {
    mode: 'automatic',
    steps: [
      'Each message carries the address of its receipts. That needs applicationId and privateKey, and an application whose Messages capability is on (Vonage dashboard, Applications) and to which the WhatsApp number is linked.',
      `${SIGNED}. What was read comes along with the other receipts.`,
    ],
  },
};

/** https://developer.vonage.com/en/messages/concepts/message-status-webhook */
function messagesReceipt(receipt: z.output<typeof MessageStatus>): ParsedReceipt {
  const { message_uuid: uuid, status, client_ref: reference, timestamp, error } = receipt;
  return {
    ...(reference === undefined ? {} : { reference }),
    providerMessageId: uuid,
    eventId: `${uuid}:${status}`,
    ...messagesState(status, error),
    ...timeOf(timestamp),
    providerStatus: status.slice(0, PROVIDER_STATUS_MAX),
  };
}

function messagesState(status: string, error: z.output<typeof MessageStatus>['error']): Told {
  switch (status) {
    case 'submitted':
      return { state: 'sent' };
    case 'delivered':
      return { state: 'delivered' };
    case 'read':
      return { state: 'delivered', engagement: 'read' };
    case 'rejected':
    case 'undeliverable': {
      const codes = [codeOfType(error?.type), error?.code, error?.title];
      return {
        state: 'undelivered',
        failure: failureOf(
          codes.find((one) => /^\d{4}$/.test(one ?? '')),
          MESSAGES_CODES,
        ),
      };
    }
    default:
      return {};
  }
}

/** https://developer.vonage.com/en/messaging/sms/guides/delivery-receipts. A long text gets one receipt per part. */
function smsReceipt(parameters: Parameters): ParsedReceipt | undefined {
  const partId = parameters.get('messageId');
  const status = parameters.get('status');
  if (!partId || !status || !parameters.has('err-code')) return undefined;
  const reference = parameters.get('client-ref');
  const errorCode = parameters.get('err-code') ?? '';
  return {
    ...(reference ? { reference } : {}),
    // The first part's id is the one that the send response returned; the other parts are matched by the reference.
    providerMessageId: partId,
    segment: partId,
    eventId: `${partId}:${status}:${errorCode}`,
    ...smsState(status, errorCode),
    ...timeOf(parameters.get('message-timestamp')?.replace(/^(\S+) (\S+)$/, '$1T$2Z')),
    providerStatus: status.slice(0, PROVIDER_STATUS_MAX),
  };
}

function smsState(status: string, errorCode: string): Told {
  switch (status) {
    case 'accepted':
    case 'buffered':
    case 'unknown':
      return { state: 'sent' };
    case 'delivered':
      return { state: 'delivered' };
    case 'expired':
    case 'failed':
    case 'rejected':
      return { state: 'undelivered', failure: failureOf(errorCode, SMS_RECEIPT_CODES) };
    default:
      return {};
  }
}

function failureOf(providerCode: string | undefined, table: CodeTable): Failure {
  const known = providerCode === undefined ? undefined : table[providerCode];
  return {
    class: known?.class ?? 'unknown',
    code: known?.code ?? 'undelivered',
    ...(providerCode === undefined || providerCode === ''
      ? {}
      : { providerCode: vendorText(providerCode, PROVIDER_CODE_MAX) }),
  };
}

function timeOf(text: string | undefined): { readonly at?: number } {
  const at = Date.parse(text ?? '');
  return Number.isNaN(at) ? {} : { at };
}
