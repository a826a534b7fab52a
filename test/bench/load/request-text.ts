import { randomUUID } from 'node:crypto';

export type RequestTexts = {
  /** Returns the request of the n-th message, which carries its number to the provider. */
  of(n: number, key: number): string;
};

const FILLER = 'Your parcel is on its way and will reach you between nine and noon. Track it in the app.';

/** Returns recipient, text and external id of the n-th message. */
export function messageText(n: number): { to: string; body: string; externalId: string } {
  const digits = String(n).padStart(9, '0');
  return { to: `+1555${digits.slice(-7)}`, body: `m${digits} ${FILLER}`, externalId: `order-${digits}` };
}

/**
 * Prepares the constant halves of a send request for each key, and the part that differs between messages, about 400 bytes in
 * all.
 * @param messagesEach messages per request; more than one are sent as an all-or-nothing batch in which each has its own number.
 */
export function requestTexts(keys: readonly string[], isIdempotent: boolean, messagesEach = 1): RequestTexts {
  const one = (n: number): string => {
    const { to, body, externalId } = messageText(n);
    return `{"channel":"sms","to":"${to}","body":"${body}","externalId":"${externalId}","category":"transactional","metadata":{"order":"${externalId}","region":"eu-central","template":"parcel-v3","locale":"en-GB"},"tags":["parcel","tracking"],"deliveryGuarantee":"at_least_once"}`;
  };
  const text = (n: number): string => {
    if (messagesEach === 1) return one(n);
    const messages = Array.from({ length: messagesEach }, (_, i) => one(n * messagesEach + i));
    return `{"mode":"strict","messages":[${messages.join(',')}]}`;
  };
  const path = messagesEach === 1 ? '/v1/messages' : '/v1/messages/batch';
  const { length } = text(0);
  const heads = keys.map(
    (key) =>
      `POST ${path} HTTP/1.1\r\n${COMMON}x-service-key: ${key}\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n`,
  );
  return {
    of(n, key) {
      const head = heads[key] as string;
      const idempotency = isIdempotent ? `idempotency-key: ${randomUUID()}\r\n` : '';
      return `${head}${idempotency}\r\n${text(n)}`;
    },
  };
}

export function readText(path: string, key: string): string {
  return `GET ${path} HTTP/1.1\r\n${COMMON}x-service-key: ${key}\r\n\r\n`;
}

const COMMON = 'host: 127.0.0.1\r\nuser-agent: bench\r\naccept: application/json\r\n';

/** Returns the message number in the text that a provider received; undefined where it contains none. */
export function messageNumber(text: string): number | undefined {
  const digits = /Body=m(\d{9})/.exec(text)?.[1];
  return digits === undefined ? undefined : Number(digits);
}
