import { randomUUID } from 'node:crypto';

export type RequestTexts = {
  /** The request of the n-th message, which carries its number to the provider. */
  of(n: number): string;
};

const FILLER = 'Your parcel is on its way and will reach you between nine and noon. Track it in the app.';

/** The prepared halves of a send request of about 400 bytes, one for each key, and what differs between messages. */
export function requestTexts(keys: readonly string[], isIdempotent: boolean): RequestTexts {
  const body = (n: number): string => {
    const digits = String(n).padStart(9, '0');
    return `{"channel":"sms","to":"+1555${digits.slice(-7)}","body":"m${digits} ${FILLER}","externalId":"order-${digits}","category":"transactional","metadata":{"order":"${digits}","region":"eu-central","template":"parcel-v3","locale":"en-GB"},"tags":["parcel","tracking"],"deliveryGuarantee":"at_least_once"}`;
  };
  const length = body(0).length;
  const heads = keys.map(
    (key) =>
      `POST /v1/messages HTTP/1.1\r\nhost: 127.0.0.1\r\nuser-agent: bench\r\naccept: application/json\r\nx-service-key: ${key}\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n`,
  );
  return {
    of(n) {
      const head = heads[Math.floor(Math.random() * heads.length)] as string;
      const key = isIdempotent ? `idempotency-key: ${randomUUID()}\r\n` : '';
      return `${head}${key}\r\n${body(n)}`;
    },
  };
}

/** The number of the message in whatever the provider is sent; undefined where there is none. */
export function messageNumber(text: string): number | undefined {
  const digits = /Body=m(\d{9})/.exec(text)?.[1];
  return digits === undefined ? undefined : Number(digits);
}
