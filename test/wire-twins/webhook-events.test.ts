import { generateKeyPairSync, randomBytes, randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { prepareSnippet, SNIPPET_LANGUAGES } from '../support/webhook-snippets.ts';
import { deliveredEvent, type DeliveredCall } from './support/delivered-event.ts';
import { vendorPackage } from './support/vendor-package.ts';
import { WEBHOOK_VERIFIERS, type JudgedCall } from './support/webhook-verifiers.ts';

type Webhook = {
  Webhook: new (secret: string) => { sign(id: string, timestamp: Date, body: string): string };
};
const libraries = {
  standardwebhooks: await vendorPackage<Webhook>('standardwebhooks'),
  svix: await vendorPackage<Webhook>('svix'),
};
const newSecret = (): string => `whsec_${randomBytes(32).toString('base64')}`;

/** The first run compiles Go's own packages. */
const VERIFIER_MS_MAX = 15 * 60_000;
const NO_MATCH = expect.stringMatching(/no matching signature/i) as string;
const TOO_OLD = expect.stringMatching(/too old/) as string;
const TOO_NEW = expect.stringMatching(/too new/) as string;

function withByteChanged({ headers, body }: DeliveredCall): DeliveredCall {
  return { headers, body: body.replace('message.queued', 'message.queuee') };
}

function withHeader({ headers, body }: DeliveredCall, name: string, value: string): DeliveredCall {
  return { headers: { ...headers, [name]: value }, body };
}

test.for(Object.entries(WEBHOOK_VERIFIERS))(
  'an event that the worker sends is genuine to %s; a changed or old one is rejected',
  { timeout: VERIFIER_MS_MAX },
  async ([name, prepare], context) => {
    const prepared = await prepare();
    if ('missing' in prepared) return context.skip(`${name} needs ${prepared.missing}`);
    await using verifier = prepared;
    const [present, former, foreign] = [newSecret(), newSecret(), newSecret()];
    const fresh = await deliveredEvent({ secret: present });
    const rotated = await deliveredEvent({ secret: present, previousSecret: former });
    const { privateKey: signingKey } = generateKeyPairSync('ed25519');
    const aSecondLess = String(Number(fresh.headers['webhook-timestamp']) - 1);
    const cases: readonly [name: string, verdict: string, call: JudgedCall][] = [
      ['ours', 'genuine', { ...fresh, secret: present }],
      [
        'four minutes old',
        'genuine',
        { ...(await deliveredEvent({ secret: present }, 240)), secret: present },
      ],
      ['rotated, by the present secret', 'genuine', { ...rotated, secret: present }],
      ['rotated, by the former secret', 'genuine', { ...rotated, secret: former }],
      [
        'with a v1a signature besides',
        'genuine',
        { ...(await deliveredEvent({ secret: present, signingKey })), secret: present },
      ],
      ['another byte', NO_MATCH, { ...withByteChanged(fresh), secret: present }],
      ['one byte more', NO_MATCH, { ...fresh, body: `${fresh.body}\n`, secret: present }],
      ['another id', NO_MATCH, { ...withHeader(fresh, 'webhook-id', randomUUID()), secret: present }],
      ['another time', NO_MATCH, { ...withHeader(fresh, 'webhook-timestamp', aSecondLess), secret: present }],
      ['another secret', NO_MATCH, { ...fresh, secret: foreign }],
      ['rotated, by another secret', NO_MATCH, { ...rotated, secret: foreign }],
      ['six minutes old', TOO_OLD, { ...(await deliveredEvent({ secret: present }, 360)), secret: present }],
      [
        'six minutes ahead',
        TOO_NEW,
        { ...(await deliveredEvent({ secret: present }, -360)), secret: present },
      ],
    ];
    const verdicts = await verifier.judge(cases.map(([, , call]) => call));
    expect(cases.map(([of], i) => [of, verdicts[i]])).toEqual(cases.map(([of, verdict]) => [of, verdict]));
  },
);

test(
  "the v1a signature of an event is genuine to Ed25519 of Go with the tenant's public key",
  { timeout: VERIFIER_MS_MAX },
  async (context) => {
    const prepared = await WEBHOOK_VERIFIERS['the Go module of Standard Webhooks']();
    if ('missing' in prepared) return context.skip(`it needs ${prepared.missing}`);
    await using verifier = prepared;
    const [own, foreign] = [generateKeyPairSync('ed25519'), generateKeyPairSync('ed25519')];
    const [publicKey = '', foreignKey = ''] = [own, foreign].map(
      (pair) => pair.publicKey.export({ format: 'jwk' }).x,
    );
    const signed = await deliveredEvent({ secret: newSecret(), signingKey: own.privateKey });
    const unsigned = await deliveredEvent({ secret: newSecret() });
    expect(
      await verifier.judge([
        { ...signed, publicKey },
        { ...withByteChanged(signed), publicKey },
        { ...signed, publicKey: foreignKey },
        { ...unsigned, publicKey },
      ]),
    ).toEqual(['genuine', NO_MATCH, NO_MATCH, NO_MATCH]);
  },
);

describe.each(Object.keys(SNIPPET_LANGUAGES))('the code of the guide in %s', (language) => {
  describe.each(Object.entries(libraries))('and %s', (_, { Webhook }) => {
    test('agree on which signatures are valid', async (context) => {
      await using snippet = await prepareSnippet(language);
      if (snippet === null) return context.skip(`no program runs ${language}`);
      const [present, former, foreign] = [newSecret(), newSecret(), newSecret()];
      const body = JSON.stringify({ type: 'message.sent', data: { externalId: 'Grüße ✓' } });
      const id = randomUUID();
      const at = new Date();
      const timestamp = String(Math.floor(at.getTime() / 1_000));
      const old = new Date(at.getTime() - 360_000);
      const [one, both] = [[present], [present, former]].map((secrets) =>
        secrets.map((secret) => new Webhook(secret).sign(id, at, body)).join(' '),
      );
      const call = { id, timestamp, signatures: one ?? '', body, secret: present };
      expect(
        await Promise.all(
          [
            call,
            { ...call, signatures: both ?? '' },
            { ...call, signatures: both ?? '', secret: former },
            { ...call, body: `${body} ` },
            { ...call, secret: foreign },
            {
              ...call,
              timestamp: String(Math.floor(old.getTime() / 1_000)),
              signatures: new Webhook(present).sign(id, old, body),
            },
          ].map(snippet.verify),
        ),
      ).toEqual([true, true, true, false, false, false]);
    }, 120_000);
  });
});
