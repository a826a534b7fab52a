import { execFile } from 'node:child_process';
import { createHash, createSecretKey } from 'node:crypto';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import type { ReceiptCall } from '../../services/providers/receipt.ts';
import { startMessagebirdStandIn } from '../../services/providers/messagebird/stand-in.ts';
import { signMessagebirdCall } from '../../services/providers/messagebird/stand-in-signature.ts';
import { RECEIPT_URL } from '../suites/receipt-conformance.ts';
import { NO_ACCEPT } from './support/differences.ts';
import { callOf, oracles, verdictOf } from './support/oracles.ts';
import { ENVELOPE, REFERENCE, twins } from './support/twins.ts';
import { installVendorPackages, vendorPackage } from './support/vendor-package.ts';

type Answer = (error: Error | null, answer?: { readonly id: string }) => void;
type Messagebird = {
  initClient(key: string): { readonly messages: { create(message: object, callback: Answer): void } };
};
type Signature = { verify(url: string, body: Buffer | null, token: string, key: object): Promise<boolean> };
type JsonWebToken = { sign(claims: object, key: string, options: object): string };
const { initClient } = await vendorPackage<Messagebird>('messagebird');
const { verify } = await vendorPackage<Signature>('messagebird/lib/webhook-signature-jwt');
const { sign } = await vendorPackage<JsonWebToken>('jsonwebtoken');

const signingKey = 'signing-key-1';
const account = {
  publicConfig: { originator: '+15005550006' },
  secretConfig: { accessKey: 'access-key-1', signingKey },
};

twins([
  {
    name: 'a text',
    provider: 'messagebird',
    account,
    message: { ...ENVELOPE, channel: 'sms', to: '+15551230001', content: { body: 'Grüße & 你好' } },
    standIn: startMessagebirdStandIn,
    sendBySdk: () =>
      new Promise((resolve, reject) => {
        const message = {
          originator: '15005550006',
          recipients: ['15551230001'],
          body: 'Grüße & 你好',
          type: 'sms',
          datacoding: 'auto',
          reference: REFERENCE,
          validity: 3_600,
          reportUrl: RECEIPT_URL,
        };
        initClient('access-key-1').messages.create(message, (error, answer) =>
          error === null ? resolve(answer?.id) : reject(error),
        );
      }),
    differences: [
      NO_ACCEPT,
      { at: 'body.recipients', sdk: '15551230001', why: 'The SDK joins the list with commas.' },
      { at: 'body.recipients[0]', ours: '15551230001', why: 'The API describes a list, and takes both.' },
    ],
  },
]);

const tokenOf = (headers: Readonly<Record<string, string>>) => headers['messagebird-signature-jwt'] ?? '';
const hash = (of: string | Uint8Array) => createHash('sha256').update(of).digest('hex');
/** The vendor's package only verifies, so another library signs the token. */
function signed(call: ReceiptCall): ReceiptCall {
  const claims = {
    iss: 'MessageBird',
    nbf: Math.floor(call.receivedAt / 1_000),
    exp: Math.floor(call.receivedAt / 1_000) + 60,
    jti: 'j1',
    url_hash: hash(call.url),
    ...(call.body.length === 0 ? {} : { payload_hash: hash(call.body) }),
  };
  const token = sign(claims, signingKey, { algorithm: 'HS512' });
  return { ...call, headers: { ...call.headers, 'messagebird-signature-jwt': token } };
}
const changedQuery = (call: ReceiptCall) => ({
  ...call,
  url: call.url.replace('delivered', 'deliverex'),
});

oracles([
  {
    name: 'a report',
    provider: 'messagebird',
    account,
    call: {
      method: 'GET',
      query: `?id=e8077d803532c0b5937c639b60216938&reference=${REFERENCE}&status=delivered`,
    },
    signedByVendor: signed,
    signedByUs: (call) => signMessagebirdCall(call, account, call.receivedAt),
    takenByVendor: ({ url, headers }) =>
      verify(url, null, tokenOf(headers), createSecretKey(Buffer.from(signingKey))),
    changed: changedQuery,
  },
  {
    name: 'a call with a body',
    provider: 'messagebird',
    account,
    call: { body: '{"id":"1","note":"Grüße"}' },
    signedByVendor: signed,
    signedByUs: (call) => signMessagebirdCall(call, account, call.receivedAt),
    takenByVendor: ({ url, headers, body }) =>
      verify(url, Buffer.from(body), tokenOf(headers), createSecretKey(Buffer.from(signingKey))),
  },
]);

const PROGRAM = `
const { ExpressMiddlewareVerify } = require(process.argv[1]);
const headers = { 'messagebird-signature-jwt': 'forged' };
const request = { protocol: 'https', hostname: 'hooks.example', originalUrl: '/', headers };
ExpressMiddlewareVerify('key')(request, {}, (error) => console.log(error === undefined ? 'taken' : 'refused'));
`;

test("messagebird: a forged token is forged to us, but the SDK's middleware accepts it", async () => {
  const oracle = { provider: 'messagebird', account, call: { method: 'GET' } } as const;
  const call = { ...callOf(oracle), headers: { 'messagebird-signature-jwt': 'forged' } };
  expect(await verdictOf(oracle, call)).toEqual({ kind: 'forged', reason: 'signature_mismatch' });
  // Runs in a separate process, because the SDK's verdict is a promise that nothing awaits.
  const module = join(await installVendorPackages(), 'node_modules/messagebird/lib/webhook-signature-jwt.js');
  const run = promisify(execFile)(process.execPath, ['--unhandled-rejections=none', '-e', PROGRAM, module]);
  expect((await run).stdout).toBe('taken\n');
});
