import { randomUUID } from 'node:crypto';
import { parseJson } from '../classify-error.ts';
import type { Received, Reply } from '../stand-in.ts';
import {
  behaviourOfDigits,
  formReport,
  jsonReport,
  type Reporter,
  type TakenMessage,
} from '../stand-in-reports.ts';
import { signVonageCall, signVonageParameters } from './stand-in-signature.ts';

type Sent = Readonly<Record<string, string | undefined>>;

/** The Messages API reports with JSON and a token, the SMS API with one form per part of a text. */
export const vonageReporter: Reporter = {
  taken(request, reply) {
    const sent = (parseJson(request.body) ?? {}) as Sent;
    if (request.path === '/sms/json') return partsOf(sent, reply);
    const { message_uuid: uuid } = (reply.body ?? {}) as Sent;
    if (reply.status !== 202 || uuid === undefined) return [];
    return [
      messageOf(sent, uuid, sent['client_ref'], sent['webhook_url'], { channel: sent['channel'] ?? '' }),
    ];
  },

  refused: refusalOf,

  write({ reference, to, providerMessageId, fields = {} }, state, url) {
    const { channel } = fields;
    if (channel !== undefined) {
      return jsonReport(url, {
        message_uuid: providerMessageId,
        client_ref: reference,
        to,
        from: fields['from'],
        timestamp: new Date().toISOString(),
        status: state === 'sent' ? 'submitted' : state,
        channel,
      });
    }
    return formReport(url, {
      msisdn: to,
      to: fields['from'] ?? '',
      'network-code': '12345',
      messageId: providerMessageId,
      price: '0.03330000',
      status: state === 'sent' ? 'accepted' : state,
      scts: '2611221200',
      'err-code': '0',
      'message-timestamp': new Date().toISOString().slice(0, 19).replace('T', ' '),
      'client-ref': reference,
    });
  },

  sign(call, account, at) {
    if (account.secretConfig['signatureSecret'] === undefined) return call;
    if (!Buffer.from(call.body).toString().startsWith('{')) return signVonageParameters(call, account, at);
    return signVonageCall(call, account, at, { claims: { jti: randomUUID() } });
  },
};

function partsOf(sent: Sent, { body }: Reply): TakenMessage[] {
  const parts = (body as { readonly messages?: readonly Sent[] }).messages ?? [];
  return parts.flatMap(({ status, 'message-id': id }) =>
    status === '0' && id !== undefined ? [messageOf(sent, id, sent['client-ref'], sent['callback'])] : [],
  );
}

function messageOf(
  { to = '', from = '' }: Sent,
  providerMessageId: string,
  reference = '',
  callback: string | undefined,
  fields: Readonly<Record<string, string>> = {},
): TakenMessage {
  return {
    reference,
    to,
    behaviour: behaviourOfDigits(to),
    providerMessageId,
    ...(callback === undefined ? {} : { callback }),
    fields: { from, ...fields },
  };
}

function refusalOf({ path }: Received): Reply {
  if (path === '/sms/json') {
    const part = { status: '6', 'error-text': 'Unroutable message - rejected' };
    return { status: 200, body: { 'message-count': '1', messages: [part] } };
  }
  return {
    status: 422,
    headers: { 'content-type': 'application/problem+json' },
    body: {
      type: 'https://developer.vonage.com/api-errors/messages#1170',
      title: 'Invalid or Missing MSISDN Param',
      detail: 'The value of one or more parameters is invalid.',
      instance: randomUUID(),
      invalid_parameters: [{ name: 'to', reason: 'Not a valid phone number' }],
    },
  };
}
