import { expect, test } from 'vitest';
import { sinchReporter } from './sinch/stand-in-reports.ts';
import type { Reporter, TakenMessage } from './stand-in-reports.ts';
import { twilioReporter } from './twilio/stand-in-reports.ts';
import { gatewayReporter } from './webhook/stand-in-reports.ts';

const URL = 'https://hooks.example/v1/receipts/account/token';
const message: TakenMessage = {
  reference: '7f3b2a34-1111-4222-8333-444455556666',
  to: '15551230001',
  behaviour: 'delivered',
  providerMessageId: 'vendor-1',
};
const written = (reporter: Reporter, state: 'sent' | 'delivered', taken = message) => {
  const report = reporter.write?.(taken, state, URL);
  if (report === undefined) throw new Error('The reporter writes reports');
  return report;
};

test.each([
  ['sent', 'Dispatched', 401],
  ['delivered', 'Delivered', 0],
] as const)("Sinch's report that a message is %s has the code of that state", (state, status, code) => {
  expect(JSON.parse(written(sinchReporter, state).body)).toMatchObject({ status, code });
});

test("Twilio's report contains the account that sent the message", () => {
  const accountSid = `AC${'0'.repeat(32)}`;
  const request = {
    method: 'POST',
    path: `/2010-04-01/Accounts/${accountSid}/Messages.json`,
    headers: {},
    body: new URLSearchParams({ To: '+15551230001', From: '+15005550006', Body: 'Hi' }).toString(),
    at: 0,
  };
  const body = { sid: 'SM1', account_sid: accountSid };
  const [taken] = twilioReporter.taken(request, { status: 201, body });
  const report = new URLSearchParams(written(twilioReporter, 'delivered', taken).body);
  expect(report.get('AccountSid')).toBe(accountSid);
});

test("a gateway's calls have one webhook-id per event, the same when repeated", () => {
  const account = { publicConfig: {}, secretConfig: { signingSecret: `whsec_${btoa('secret')}` } };
  const idOf = (state: 'sent' | 'delivered', taken = message) => {
    const report = written(gatewayReporter, state, taken);
    const call = { ...report, body: Buffer.from(report.body), receivedAt: 0 };
    return gatewayReporter.sign?.(call, account, 0)?.headers['webhook-id'];
  };
  const other = { ...message, reference: '7f3b2a34-1111-4222-8333-444455557777' };
  const ids = [idOf('sent'), idOf('delivered'), idOf('sent', other)];
  expect(new Set(ids).size).toBe(3);
  expect(idOf('sent')).toBe(ids[0]);
});
