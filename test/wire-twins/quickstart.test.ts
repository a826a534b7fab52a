import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { awsReporter } from '../../services/providers/aws/stand-in-reports.ts';
import { withReference } from '../../services/providers/callback-reference.ts';
import { infobipReporter } from '../../services/providers/infobip/stand-in-reports.ts';
import { mailgunReporter } from '../../services/providers/mailgun/stand-in-reports.ts';
import { messagebirdReporter } from '../../services/providers/messagebird/stand-in-reports.ts';
import { plivoReporter } from '../../services/providers/plivo/stand-in-reports.ts';
import { postmarkReporter } from '../../services/providers/postmark/stand-in-reports.ts';
import type { ReceiptCall } from '../../services/providers/receipt.ts';
import { PROVIDERS } from '../../services/providers/registry.gen.ts';
import { resendReporter } from '../../services/providers/resend/stand-in-reports.ts';
import { sendgridReporter } from '../../services/providers/sendgrid/stand-in-reports.ts';
import { sinchReporter } from '../../services/providers/sinch/stand-in-reports.ts';
import type { SigningAccount } from '../../services/providers/stand-in.ts';
import type { Reporter } from '../../services/providers/stand-in-reports.ts';
import { telnyxReporter } from '../../services/providers/telnyx/stand-in-reports.ts';
import { twilioReporter } from '../../services/providers/twilio/stand-in-reports.ts';
import { vonageReporter } from '../../services/providers/vonage/stand-in-reports.ts';
import { gatewayReporter } from '../../services/providers/webhook/stand-in-reports.ts';
import { whatsappCloudReporter } from '../../services/providers/whatsapp-cloud/stand-in-reports.ts';
import { runQuickstart, type RunningQuickstart } from '../support/running-quickstart.ts';
import { messageOf, VENDOR_ACCOUNTS } from '../support/vendor-accounts.ts';
import { VENDOR_SIGNERS } from './support/vendor-signers.ts';

/** The reports of each vendor's stand-in; the vendor's own code verifies them. */
const REPORTERS: Readonly<Record<string, Reporter>> = {
  'aws-sms': awsReporter,
  infobip: infobipReporter,
  'infobip-whatsapp': infobipReporter,
  mailgun: mailgunReporter,
  messagebird: messagebirdReporter,
  plivo: plivoReporter,
  postmark: postmarkReporter,
  resend: resendReporter,
  sendgrid: sendgridReporter,
  ses: awsReporter,
  sinch: sinchReporter,
  telnyx: telnyxReporter,
  twilio: twilioReporter,
  'twilio-whatsapp': twilioReporter,
  vonage: vonageReporter,
  'vonage-whatsapp': vonageReporter,
  'webhook-email': gatewayReporter,
  'webhook-push': gatewayReporter,
  'webhook-sms': gatewayReporter,
  'webhook-whatsapp': gatewayReporter,
  'whatsapp-cloud': whatsappCloudReporter,
};
/** These vendors return the message's id only in the URL. */
const BY_ADDRESS = new Set(['plivo', 'telnyx', 'twilio', 'twilio-whatsapp']);
/** Fields that distinguish the kinds of reports of a vendor. */
const FIELDS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  ses: { kind: 'mail' },
  vonage: { channel: 'sms' },
  'vonage-whatsapp': { channel: 'whatsapp' },
};

type Provider = {
  readonly id: string;
  readonly receiptUrl: string;
  readonly lastRefusedReceipt: { readonly reason: string } | null;
};
type Message = { readonly id: string; readonly status: string; readonly providerMessageId: string | null };

const REPORTING = [...PROVIDERS.values()]
  .filter(({ receipts }) => receipts !== null && receipts !== 'simulated')
  .map(({ id }) => id);

describe('a provider in a running quick start, whose stand-in is silent', () => {
  let quickstart: RunningQuickstart;
  beforeAll(async () => {
    quickstart = await runQuickstart();
  });
  afterAll(() => quickstart[Symbol.asyncDispose]());

  /** Creates an account, sends a message with it, and returns the vendor's report on it, unsigned. */
  async function send(id: string, account: SigningAccount) {
    const { asOwner, asTenant } = quickstart;
    const provider = await asOwner<Provider>('POST', '/v1/admin/providers', {
      provider: id,
      label: `Signed by the vendor: ${id}`,
      ...account,
    });
    const body = { ...messageOf(id, 'silent'), providerId: provider.id };
    const { id: reference } = await asTenant<Message>('POST', '/v1/messages', body);
    const look = () => asTenant<Message>('GET', `/v1/messages/${reference}`);
    await expect.poll(() => look().then(({ status }) => status)).toBe('sent');
    const { providerMessageId } = await look();
    const url = BY_ADDRESS.has(id) ? withReference(provider.receiptUrl, reference) : provider.receiptUrl;
    const said = REPORTERS[id]?.write?.(
      {
        reference,
        to: body.to,
        behaviour: 'silent',
        providerMessageId: providerMessageId ?? '',
        ...(FIELDS[id] === undefined ? {} : { fields: FIELDS[id] }),
      },
      'delivered',
      url,
    );
    if (said === undefined) throw new Error(`${id} says nothing of deliveries`);
    const call: ReceiptCall = { ...said, body: Buffer.from(said.body), receivedAt: Date.now() };
    const refused = async () =>
      (await asOwner<Provider>('GET', `/v1/admin/providers/${provider.id}`)).lastRefusedReceipt;
    return { provider, call, status: () => look().then(({ status }) => status), refused };
  }

  const signing = REPORTING.filter((id) => VENDOR_SIGNERS[id] !== undefined);
  test.each(signing)(
    "%s: a report signed by the vendor's code is applied, and is refused with one byte changed",
    async (id) => {
      const { sign, isTaken, settings, changed = changeDigit } = VENDOR_SIGNERS[id] ?? {};
      const known = VENDOR_ACCOUNTS[id] as SigningAccount;
      const account = { ...known, publicConfig: { ...known.publicConfig, ...settings } };
      const { call, status, refused } = await send(id, account);
      const signed = (await sign?.(call, account)) ?? call;
      if (isTaken !== undefined) expect(await isTaken(signed, account)).toBe(true);

      const forged = changed(signed);
      expect(forged).not.toEqual(signed);
      await post(forged);
      await expect.poll(refused, { interval: 500 }).toMatchObject({ reason: 'signature_mismatch' });
      expect(await status()).toBe('sent');
      await post(signed);
      await expect.poll(status).toBe('delivered');
    },
  );

  const trusting = REPORTING.filter((id) => VENDOR_SIGNERS[id] === undefined);
  test.each(trusting)(
    '%s: a report to its receipt URL is applied, and gets 404 with another token',
    async (id) => {
      const account = VENDOR_ACCOUNTS[id] as SigningAccount;
      const { call, status } = await send(id, account);
      // Mailgun's signature is part of the body and does not cover the rest of it.
      const signed = REPORTERS[id]?.sign?.(call, account, Date.now()) ?? call;
      const wrong = call.url.replace(/.$/, (last) => (last === 'A' ? 'B' : 'A'));
      expect((await fetchCall({ ...signed, url: wrong })).status).toBe(404);
      expect(await status()).toBe('sent');
      await post(signed);
      await expect.poll(status).toBe('delivered');
    },
  );
});

/** Flips one bit of a digit in the body, or in the URL of a call without a body. */
function changeDigit(call: ReceiptCall): ReceiptCall {
  if (call.body.length === 0) return { ...call, url: call.url.replace(/(?<=recipient=[^&]*)7(?=&)/, '6') };
  const body = Buffer.from(call.body);
  const position = body.findLastIndex((byte) => byte >= 0x30 && byte <= 0x38);
  if (position === -1) throw new Error('The body has no digit to change');
  body[position] = (body[position] ?? 0) ^ 1;
  return { ...call, body };
}

async function post(call: ReceiptCall): Promise<void> {
  const { status } = await fetchCall(call);
  expect([200, 204]).toContain(status);
}

function fetchCall({ method, url, headers, body }: ReceiptCall): Promise<Response> {
  const sent = method === 'GET' ? {} : { body: Buffer.from(body) };
  return fetch(url, { method, headers, ...sent });
}
