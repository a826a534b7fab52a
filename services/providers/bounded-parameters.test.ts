import { expect, test } from 'vitest';
import { boundedParameters, PARAMETERS_MAX } from './bounded-parameters.ts';
import { signPlivoCall } from './plivo/stand-in-signature.ts';
import type { ReceiptCall } from './receipt.ts';
import { findProvider, receiptsOf } from './registry.ts';
import type { SigningAccount } from './stand-in.ts';
import { signTwilioCall } from './twilio/stand-in-signature.ts';
import { signVonageParameters } from './vonage/stand-in-signature.ts';

test('a form with more than the maximum of parameters, including empty ones, is not decoded', () => {
  expect([...(boundedParameters('a=1&b=%32&a=') ?? [])]).toEqual([
    ['a', '1'],
    ['b', '2'],
    ['a', ''],
  ]);
  expect(boundedParameters('a&'.repeat(PARAMETERS_MAX - 1))?.size).toBe(PARAMETERS_MAX - 1);
  for (const text of ['a&', '&']) expect(boundedParameters(text.repeat(PARAMETERS_MAX))).toBeUndefined();
});

const AT = Date.UTC(2026, 10, 22, 12);
const account: SigningAccount = {
  publicConfig: { signatureMethod: 'sha256' },
  secretConfig: { authToken: 'token', signatureSecret: 'secret' },
};
type Sign = (call: ReceiptCall, signing: SigningAccount, at: number) => ReceiptCall;
const FORMS: readonly (readonly [provider: string, sign: Sign, form: string])[] = [
  ['twilio', signTwilioCall, 'MessageSid=SM1&MessageStatus=sent'],
  ['plivo', signPlivoCall, 'MessageUUID=u1&Status=sent'],
  ['vonage', signVonageParameters, 'messageId=m1&status=delivered&err-code=0'],
];

test.each(FORMS)(
  'a call of %s with too many parameters is neither verified nor parsed',
  async (id, sign, form) => {
    const definition = receiptsOf(findProvider(id));
    const read = async (more: number) => {
      const padding = Array.from({ length: more }, (_, n) => `&k${n}=`).join('');
      const unsigned: ReceiptCall = {
        method: 'POST',
        url: 'https://hooks.example/v1/receipts/a/b',
        headers: {},
        body: Buffer.from(form + padding),
        receivedAt: AT,
      };
      const call = sign(unsigned, account, AT);
      const of = { config: account.publicConfig, secrets: account.secretConfig } as never;
      return [await definition?.verify?.(call, of, undefined as never), definition?.parse(call)];
    };
    expect(await read(100)).toMatchObject([
      { kind: 'genuine' },
      { kind: 'receipts', receipts: { length: 1 } },
    ]);
    expect(await read(PARAMETERS_MAX)).toMatchObject([{ kind: 'forged' }, { kind: 'unreadable' }]);
  },
);
