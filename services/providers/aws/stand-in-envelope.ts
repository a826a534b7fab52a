import { createSign } from 'node:crypto';
import { createProviderContexts } from '../context.ts';
import type { HttpResult } from '../provider.ts';
import { SNS_CERTIFICATE, SNS_KEY } from './stand-in-certificate.ts';

export const TOPIC_ARN = 'arn:aws:sns:eu-central-1:123456789012:events';
export const CERTIFICATE_URL =
  'https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-0123456789abcdef.pem';

/** Returns an envelope in SNS's format, signed as the SNS documentation describes. */
export function signedEnvelope(said: object, version: '1' | '2'): Record<string, string> {
  const envelope: Record<string, string> = {
    Type: 'Notification',
    MessageId: '22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324',
    TopicArn: TOPIC_ARN,
    Message: '',
    Timestamp: '2026-11-22T12:00:00.000Z',
    SignatureVersion: version,
    Signature: '',
    SigningCertURL: CERTIFICATE_URL,
    UnsubscribeURL: 'https://sns.eu-central-1.amazonaws.com/?Action=Unsubscribe',
    ...said,
  };
  const names =
    envelope['Type'] === 'Notification'
      ? ['Message', 'MessageId', 'Subject', 'Timestamp', 'TopicArn', 'Type']
      : ['Message', 'MessageId', 'SubscribeURL', 'Timestamp', 'Token', 'TopicArn', 'Type'];
  const text = names
    .filter((name) => envelope[name] !== undefined)
    .map((name) => `${name}\n${envelope[name]}\n`)
    .join('');
  const signer = createSign(version === '1' ? 'RSA-SHA1' : 'RSA-SHA256').update(text);
  return { ...envelope, Signature: signer.sign(SNS_KEY, 'base64') };
}

/** Returns a context that serves the SNS certificate after the given results, plus the requests that it received. */
export function snsContext(results: readonly HttpResult[] = [], now = Date.UTC(2026, 10, 22, 12)) {
  const asked: string[] = [];
  const queue = [...results];
  const contexts = createProviderContexts({
    async http({ url }) {
      asked.push(url);
      return queue.shift() ?? { kind: 'response', status: 200, headers: {}, text: SNS_CERTIFICATE };
    },
    resolve: async () => ({ kind: 'refused', code: 'egress_blocked' }),
    epochMs: () => now,
  });
  const signal = new AbortController().signal;
  return { context: contexts({ provider: 'ses', accountId: 'a', version: 1, until: signal }), asked };
}
