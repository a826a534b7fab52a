import { behaviourOfNumber } from '../behaviour.ts';
import { referenceOf } from '../callback-reference.ts';
import type { ReceiptCall } from '../receipt.ts';
import type { Received } from '../stand-in.ts';
import { formReport, type Reporter, type UnsignedReport } from '../stand-in-reports.ts';
import { signTwilioCall } from './stand-in-signature.ts';

/** Reports to the callback URL of a message. */
export const twilioReporter: Reporter = {
  taken(request, { status, body }) {
    const form = new URLSearchParams(request.body);
    const [callback, to] = [form.get('StatusCallback'), form.get('To')];
    if (status !== 201 || to === null) return [];
    const { sid, account_sid: accountSid } = body as Readonly<Record<'sid' | 'account_sid', string>>;
    return [
      {
        reference: referenceOf(callback ?? '').reference ?? '',
        to,
        behaviour: behaviourOfNumber(to.replace(/^whatsapp:/, '')),
        providerMessageId: sid,
        ...(callback === null ? {} : { callback }),
        fields: { AccountSid: accountSid, To: to, From: form.get('From') ?? '' },
        account: { publicConfig: {}, secretConfig: { authToken: tokenOf(request) } },
      },
    ];
  },
  refused: () => ({
    status: 400,
    body: {
      code: 21211,
      message: "The 'To' number is not a valid phone number.",
      more_info: 'https://www.twilio.com/docs/errors/21211',
      status: 400,
    },
  }),
  write: ({ providerMessageId, fields }, state, url) =>
    unsignedReport({ url, sid: providerMessageId, state, ...(fields === undefined ? {} : { fields }) }),
  sign: signTwilioCall,
};

export type StatusReport = {
  /** The callback URL that the message was sent with. */
  readonly url: string;
  readonly sid: string;
  /** Twilio's state name, such as `delivered`. */
  readonly state: string;
  readonly authToken: string;
  /** Fields in addition to the message's id and state. */
  readonly fields?: Readonly<Record<string, string>>;
};

/** Builds the call in which Twilio reports a message's state. */
export function statusReport({ authToken, ...report }: StatusReport) {
  const unsigned = unsignedReport(report);
  const call: ReceiptCall = { ...unsigned, body: Buffer.from(unsigned.body), receivedAt: Date.now() };
  const { headers } = signTwilioCall(call, { publicConfig: {}, secretConfig: { authToken } });
  return { url: report.url, headers, body: unsigned.body };
}

function unsignedReport({ url, sid, state, fields = {} }: Omit<StatusReport, 'authToken'>): UnsignedReport {
  const ids = { MessageSid: sid, MessageStatus: state, SmsSid: sid, SmsStatus: state };
  return formReport(url, { ...fields, ApiVersion: '2010-04-01', ...ids });
}

function tokenOf({ headers }: Received): string {
  const pair = Buffer.from(headers['authorization']?.slice('Basic '.length) ?? '', 'base64').toString();
  return pair.slice(pair.indexOf(':') + 1);
}
