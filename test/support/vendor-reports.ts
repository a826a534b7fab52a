import { receiptsOf } from '#providers/registry.ts';
import { PROVIDERS, type ProviderKind } from '#providers/registry.gen.ts';
import type { ReceiptCall } from '#providers/receipt.ts';

/** The ids by which a provider names a message. */
export type Named = { readonly reference?: string | undefined; readonly vendorId?: string | undefined };

type Said = { readonly query?: string; readonly body?: string };

const NO_ID = '00000000-0000-0000-0000-000000000000';
const form = (fields: Record<string, string>): string => new URLSearchParams(fields).toString();
const given = <T>(value: string | undefined, of: (value: string) => T): T | object =>
  value === undefined ? {} : of(value);
const mid = ({ reference }: Named): string => (reference === undefined ? '' : `?mid=${reference}`);
const ofSns = (vendorId: string, event: object): Said => ({
  body: JSON.stringify({
    Type: 'Notification',
    MessageId: vendorId,
    TopicArn: 'arn:aws:sns:eu-central-1:123456789012:events',
    Message: JSON.stringify(event),
    Timestamp: '2026-11-22T12:00:00.000Z',
    SignatureVersion: '2',
    Signature: 'AAAA',
    SigningCertURL: 'https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-0.pem',
  }),
});

const twilio = (named: Named): Said => ({
  query: mid(named),
  body: form({ MessageSid: named.vendorId ?? 'SM0', MessageStatus: 'delivered' }),
});
const infobip = ({ reference, vendorId = 'none' }: Named): Said => ({
  body: JSON.stringify({
    results: [
      {
        messageId: vendorId,
        ...given(reference, (callbackData) => ({ callbackData })),
        status: { groupId: 3, groupName: 'DELIVERED', id: 5, name: 'DELIVERED_TO_HANDSET' },
      },
    ],
  }),
});
const vonage = ({ reference, vendorId = NO_ID }: Named): Said => ({
  body: JSON.stringify({
    message_uuid: vendorId,
    ...given(reference, (ref) => ({ client_ref: ref })),
    status: 'delivered',
  }),
});
/** A gateway names messages only by the service's id. */
const gateway = ({ reference = NO_ID }: Named): Said => ({
  body: JSON.stringify({ messageId: reference, status: 'delivered' }),
});

const SAID: Readonly<Partial<Record<ProviderKind, (named: Named) => Said>>> = {
  'aws-sms': ({ reference, vendorId = 'none' }) =>
    ofSns(vendorId, {
      eventType: 'TEXT_DELIVERED',
      messageId: vendorId,
      ...given(reference, (despatchMessageId) => ({ context: { despatchMessageId } })),
      messageStatus: 'DELIVERED',
    }),
  infobip,
  'infobip-whatsapp': infobip,
  mailgun: ({ reference, vendorId = 'none' }) => ({
    body: JSON.stringify({
      signature: { token: vendorId, timestamp: '1795348800', signature: 'aa' },
      'event-data': {
        event: 'delivered',
        message: { headers: { 'message-id': vendorId } },
        ...given(reference, (id) => ({ 'user-variables': { despatch_message_id: id } })),
      },
    }),
  }),
  messagebird: ({ reference, vendorId = 'none' }) => ({
    query: `?${form({ id: vendorId, status: 'delivered', ...given(reference, (one) => ({ reference: one })) })}`,
  }),
  plivo: (named) => ({
    query: mid(named),
    body: form({ MessageUUID: named.vendorId ?? NO_ID, Status: 'delivered' }),
  }),
  postmark: ({ reference, vendorId = NO_ID }) => ({
    body: JSON.stringify({
      RecordType: 'Delivery',
      MessageID: vendorId,
      ...given(reference, (id) => ({ Metadata: { despatch_message_id: id } })),
    }),
  }),
  resend: ({ reference, vendorId }) => ({
    body: JSON.stringify({
      type: 'email.delivered',
      data: {
        ...given(vendorId, (id) => ({ email_id: id })),
        ...given(reference, (id) => ({ tags: { despatch_message_id: id } })),
      },
    }),
  }),
  sendgrid: ({ reference, vendorId }) => ({
    body: JSON.stringify([
      {
        event: 'delivered',
        ...given(vendorId, (id) => ({ sg_message_id: id })),
        ...given(reference, (id) => ({ despatch_message_id: id })),
      },
    ]),
  }),
  ses: ({ reference, vendorId = 'none' }) =>
    ofSns(vendorId, {
      eventType: 'Delivery',
      mail: {
        messageId: vendorId,
        ...given(reference, (id) => ({ tags: { despatch_message_id: [id] } })),
      },
    }),
  sinch: ({ reference, vendorId = 'none' }) => ({
    body: JSON.stringify({
      type: 'recipient_delivery_report_sms',
      batch_id: vendorId,
      ...given(reference, (id) => ({ client_reference: id })),
      status: 'Delivered',
      code: 0,
    }),
  }),
  telnyx: (named) => ({
    query: mid(named),
    body: JSON.stringify({
      data: {
        id: `event of ${named.vendorId}`,
        event_type: 'message.finalized',
        payload: { id: named.vendorId ?? NO_ID, to: [{ status: 'delivered' }] },
      },
    }),
  }),
  twilio,
  'twilio-whatsapp': twilio,
  vonage,
  'vonage-whatsapp': vonage,
  'webhook-email': gateway,
  'webhook-push': gateway,
  'webhook-sms': gateway,
  'webhook-whatsapp': gateway,
  'whatsapp-cloud': ({ reference, vendorId = 'none' }) => ({
    body: JSON.stringify({
      object: 'whatsapp_business_account',
      entry: [
        {
          changes: [
            {
              field: 'messages',
              value: {
                statuses: [
                  {
                    id: vendorId,
                    status: 'delivered',
                    ...given(reference, (ref) => ({ biz_opaque_callback_data: ref })),
                  },
                ],
              },
            },
          ],
        },
      ],
    }),
  }),
};

/** Every provider of the catalog that calls a receipt URL. */
export const REPORTING: readonly ProviderKind[] = [...PROVIDERS.values()]
  .filter((provider) => receiptsOf(provider) !== undefined)
  .map(({ id }) => id as ProviderKind);

/** Returns the provider's report of a delivery, in the form that is then signed. */
export function deliveryReport(
  provider: ProviderKind,
  named: Named,
): { readonly method: ReceiptCall['method']; readonly query: string; readonly body: string } {
  const said = SAID[provider]?.(named);
  if (said === undefined) throw new Error(`Nobody has said how ${provider} reports a delivery`);
  const { query = '', body } = said;
  return { method: body === undefined ? 'GET' : 'POST', query, body: body ?? '' };
}
