import { describe, expect, test } from 'vitest';
import { normalAddress, parseMailbox } from '#core/domain/recipient/mailbox.ts';
import { normalNumber } from '#core/domain/recipient/phone-number.ts';
import { parseServiceKey } from '#core/domain/tenant/service-key.ts';
import { createEgressGuard } from '#core/platform/http/egress-guard.ts';
import { scrub } from '#core/platform/telemetry/scrub.ts';
import { redact } from '#providers/redact.ts';
import { parseAccount } from '#providers/registry.ts';
import { PROVIDERS } from '#providers/registry.gen.ts';
import { idempotencyKeyOf } from '../../services/api/http/routes/idempotency.ts';
import { inputCompiler, readJson } from '../../services/api/http/input/read-input.ts';
import { SendMessage } from '../../services/api/messages/send-message-schema.ts';
import { leastCpuMs, slowGrowth } from '#test/support/slow-growth.ts';

/** Texts that make an ambiguous pattern backtrack through all its possibilities. */
const TEXTS: Readonly<Record<string, (length: number) => string>> = {
  letters: (n) => 'a'.repeat(n),
  digits: (n) => `+${'1'.repeat(n)}x`,
  spaces: (n) => `a${' '.repeat(n)}!`,
  dots: (n) => `${'a.'.repeat(n / 2)}!`,
  hyphens: (n) => `a@${'a-'.repeat(n / 2)}!`,
  ats: (n) => 'a@'.repeat(n / 2),
  labels: (n) => `a@${'a.'.repeat(n / 2)}!`,
  'open quotes': (n) => `"${'a'.repeat(n)}`,
  backslashes: (n) => `"${'\\'.repeat(n)}`,
  'open brackets': (n) => '('.repeat(n),
  brackets: (n) => '()'.repeat(n / 2),
  angles: (n) => '<'.repeat(n),
  words: (n) => `${'a '.repeat(n / 2)}<`,
  folds: (n) => `a${' \t'.repeat(n / 2)}@b.example`,
  parameters: (n) => '; a=b'.repeat(n / 5),
  'line ends': (n) => '\r\n'.repeat(n / 2),
  colons: (n) => '0:'.repeat(n / 2),
  slashes: (n) => `https://${'/a'.repeat(n / 2)}`,
  keys: (n) => 'dsp_live_'.repeat(n / 9),
  tokens: (n) => 'eyJa.'.repeat(n / 5),
  'joined tokens': (n) => `.${'eyJ-'.repeat(n / 4)}`,
  'joined claims': (n) => `eyJaaaaaaaa.${'eyJ-'.repeat(n / 4)}`,
  'armoured labels': (n) => '-----BEGIN PRIVATE KEY '.repeat(n / 23),
  bearers: (n) => 'Bearer '.repeat(n / 7),
  addresses: (n) => `${'a'.repeat(60)}@`.repeat(n / 61),
  pluses: (n) => '+a'.repeat(n / 2),
  'equals signs': (n) => `${'='.repeat(n)}a`,
};

const validate = inputCompiler({ schema: SendMessage, method: 'POST', url: '/', httpPart: 'body' });
const email = { channel: 'email', to: 'a@b.example', from: 'a@b.example', subject: 'a' };
const whatsapp = { channel: 'whatsapp', to: '+15550000001' };
const attachment = { filename: 'a', contentType: 'a/b', content: '' };
const guard = createEgressGuard({ allowCidrs: [], ports: [], resolveHost: async () => [] });
const smtp = PROVIDERS.get('smtp');
const twilio = PROVIDERS.get('twilio');
const gateway = PROVIDERS.get('webhook-sms');
if (smtp === undefined || twilio === undefined || gateway === undefined)
  throw new Error('The catalog lacks a provider');

/** Every function that reads a text before its length is checked, or a text from another party. */
const READERS: Readonly<Record<string, (text: string) => unknown>> = {
  'a body': (text) => readJson(Buffer.from(JSON.stringify({ text }))),
  'the recipient of a mail': (text) => validate({ ...email, to: text }),
  'the sender of a mail': (text) => validate({ ...email, from: text }),
  'the name of a header': (text) => validate({ ...email, headers: { [`X-${text}`]: 'a' } }),
  'the type of an attachment': (text) =>
    validate({ ...email, attachments: [{ ...attachment, contentType: `a/b${text}` }] }),
  'an attachment': (text) => validate({ ...email, attachments: [{ ...attachment, content: text }] }),
  'a number': (text) => validate({ channel: 'sms', to: text, body: 'a' }),
  'a time': (text) =>
    validate({ channel: 'sms', to: '+15550000001', body: 'a', expiresAt: `2026-01-01T00:00:00${text}` }),
  'an id': (text) => validate({ channel: 'sms', to: '+15550000001', body: 'a', providerId: text }),
  'a media URL': (text) => validate({ ...whatsapp, media: { url: `https://a.example/${text}` } }),
  'a media host': (text) => validate({ ...whatsapp, media: { url: `https://${text}` } }),
  'a language': (text) => validate({ ...whatsapp, template: { name: 'a', language: `en${text}` } }),
  'a service key': (text) => parseServiceKey(text),
  'an idempotency key': (text) => {
    try {
      return idempotencyKeyOf(text, undefined);
    } catch {
      return undefined;
    }
  },
  'a mail host': (text) => guard.resolve(text, 25),
  'an SMTP account': (text) =>
    parseAccount(smtp, { host: text, from: text, fromName: text, oauthTenant: text }, {}),
  'a Twilio account': (text) =>
    parseAccount(twilio, { accountSid: text, from: text, region: text }, { authToken: text }),
  'an account of a gateway': (text) =>
    parseAccount(
      gateway,
      { url: `https://a.example/${text}`, from: text },
      { signingSecret: `whsec_${text}` },
    ),
  "a provider's message": tenths((text) => redact(text, ['secret-of-the-account', '+15550000001'])),
  'a line of the log': tenths(scrub),
};

/** What cuts a text to some thousand characters takes as long for any longer one, so it reads ten times a tenth of each text. */
function tenths(read: (text: string) => unknown): (text: string) => void {
  return (text) => {
    for (let i = 0; i < 10; i += 1) read(text.slice(0, text.length / 10));
  };
}

describe.each(Object.entries(READERS))('%s', (_, read) => {
  test('is read in linear time, whatever the text', async () => {
    const slow: string[] = [];
    for (const [kind, make] of Object.entries(TEXTS)) {
      const [short, long] = [make(8_000), make(80_000)];
      // Linear growth is a factor of ten for ten times the length; the test allows as much again for a busy machine. Quadratic
      // growth is a factor of a hundred.
      const took = await slowGrowth(
        () => read(short),
        () => read(long),
        20,
      );
      if (took !== undefined) slow.push(`${kind}: ${took}`);
    }
    expect(slow).toEqual([]);
  });
});

test.each([
  ['a mailbox', (text: string) => parseMailbox(text)],
  ['an address', (text: string) => normalAddress(text)],
  ['a phone number', (text: string) => normalNumber(text)],
])('%s of the maximum length is read within 100 ms, whatever the text', async (_, read) => {
  for (const make of Object.values(TEXTS)) {
    const text = make(320);
    expect(await leastCpuMs(() => read(text))).toBeLessThan(100);
  }
});
