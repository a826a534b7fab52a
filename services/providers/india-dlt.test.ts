import { describe, expect, test } from 'vitest';
import { createProviderContexts } from './context.ts';
import type { HttpRequest } from './provider.ts';
import { findProvider, parseAccount, parsePublicConfig } from './registry.ts';

const DLT = { dltEntityId: '1101568700000000001', dltTemplateId: '1107160000000000002' };
const [ENTITY, TEMPLATE] = [DLT.dltEntityId, DLT.dltTemplateId];

const AWS = { region: 'ap-south-1', accessKeyId: 'AKIAIOSFODNN7EXAMPLE', senderId: 'ACMEIN' };
const AWS_SECRET = { secretAccessKey: 'secret' };

type Case = {
  readonly provider: string;
  readonly publicConfig: Readonly<Record<string, unknown>>;
  readonly secretConfig: Readonly<Record<string, unknown>>;
  /** Reads the part of the request that is specific to India. */
  readonly read: (body: string) => unknown;
  readonly both: unknown;
  readonly entityAlone: unknown;
  /** The same part for a recipient outside of India. */
  readonly none: unknown;
};

const json = (body: string) => JSON.parse(body) as Record<string, unknown>;
const picked = (from: Record<string, unknown>, names: readonly string[]) =>
  Object.fromEntries(Object.entries(from).filter(([name]) => names.includes(name)));

const CASES: readonly Case[] = [
  {
    provider: 'plivo',
    publicConfig: { authId: 'MAXXXXXXXXXXXXXXXXXX', from: 'ACMEIN' },
    secretConfig: { authToken: 'token' },
    read: (body) => picked(json(body), ['dlt_entity_id', 'dlt_template_id']),
    both: { dlt_entity_id: ENTITY, dlt_template_id: TEMPLATE },
    entityAlone: { dlt_entity_id: ENTITY },
    none: {},
  },
  {
    provider: 'infobip',
    publicConfig: { baseUrl: 'x.api.infobip.com', from: 'ACMEIN' },
    secretConfig: { apiKey: 'key' },
    read: (body) => (json(body)['messages'] as { options: { regional?: unknown } }[])[0]?.options.regional,
    both: { indiaDlt: { principalEntityId: ENTITY, contentTemplateId: TEMPLATE } },
    entityAlone: { indiaDlt: { principalEntityId: ENTITY } },
    none: undefined,
  },
  {
    provider: 'vonage',
    publicConfig: { apiKey: 'abcd1234', from: 'ACMEIN' },
    secretConfig: { apiSecret: 'secret' },
    read: (body) => json(body)['sms'],
    both: { encoding_type: 'auto', entity_id: ENTITY, content_id: TEMPLATE },
    entityAlone: { encoding_type: 'auto', entity_id: ENTITY },
    none: { encoding_type: 'auto' },
  },
  {
    provider: 'vonage',
    publicConfig: { apiKey: 'abcd1234', from: 'ACMEIN', api: 'sms' },
    secretConfig: { apiSecret: 'secret' },
    read: (body) => picked(json(body), ['entity-id', 'content-id']),
    both: { 'entity-id': ENTITY, 'content-id': TEMPLATE },
    entityAlone: { 'entity-id': ENTITY },
    none: {},
  },
  {
    provider: 'aws-sms',
    publicConfig: AWS,
    secretConfig: AWS_SECRET,
    read: (body) => json(body)['DestinationCountryParameters'],
    both: { IN_ENTITY_ID: ENTITY, IN_TEMPLATE_ID: TEMPLATE },
    entityAlone: { IN_ENTITY_ID: ENTITY },
    none: undefined,
  },
  {
    provider: 'aws-sms',
    publicConfig: { ...AWS, mode: 'sns' },
    secretConfig: AWS_SECRET,
    read: (body) => {
      const form = new URLSearchParams(body);
      const at = (n: number, what: string) => form.get(`MessageAttributes.entry.${n}.${what}`);
      const names = [1, 2, 3, 4].map((n) => [at(n, 'Name'), at(n, 'Value.StringValue')]);
      return names.filter(([name]) => name?.startsWith('AWS.MM.SMS'));
    },
    both: [
      ['AWS.MM.SMS.EntityId', ENTITY],
      ['AWS.MM.SMS.TemplateId', TEMPLATE],
    ],
    entityAlone: [['AWS.MM.SMS.EntityId', ENTITY]],
    none: [],
  },
];

const definitionOf = (id: string) => {
  const provider = findProvider(id);
  if (provider === undefined) throw new Error(`The catalog lacks ${id}`);
  return provider;
};

async function sentTo(to: string, { provider: id, publicConfig, secretConfig, read }: Case, dlt: object) {
  const provider = definitionOf(id);
  const account = parseAccount(provider, { ...publicConfig, ...dlt }, secretConfig);
  if (!account.ok) throw new Error(JSON.stringify(account.details));
  const requests: HttpRequest[] = [];
  const contexts = createProviderContexts({
    async http(request) {
      requests.push(request);
      return { kind: 'not_sent', code: 'connect_refused' };
    },
    resolve: async () => ({ kind: 'refused', code: 'egress_blocked' }),
  });
  const signal = AbortSignal.timeout(20_000);
  const context = contexts({ provider: id, accountId: 'account', version: 1, until: signal });
  const message = {
    channel: 'sms',
    id: '7f3b2a34-1111-4222-8333-444455556666',
    to,
    content: { body: 'Your code is 1234' },
    expiresAt: Date.now() + 3_600_000,
    attempt: 1,
  };
  await provider.send(message as never, account as never, context);
  const [request] = requests;
  return read(String(request?.body));
}

describe.each(CASES)('$provider $publicConfig.api$publicConfig.mode', (one) => {
  test('sends the DLT entity and template ids for recipients in India', async () => {
    expect(await sentTo('+919876543210', one, DLT)).toEqual(one.both);
    expect(await sentTo('+919876543210', one, { dltEntityId: ENTITY })).toEqual(one.entityAlone);
  });

  test('sends no DLT ids to other countries or without settings', async () => {
    expect(await sentTo('+15551230001', one, DLT)).toEqual(one.none);
    expect(await sentTo('+919876543210', one, {})).toEqual(one.none);
  });

  test('requires an entity id with a template id', () => {
    const { publicConfig, secretConfig } = one;
    const template = { ...publicConfig, dltTemplateId: TEMPLATE };
    expect(parseAccount(definitionOf(one.provider), template, secretConfig)).toMatchObject({
      ok: false,
      details: [{ field: 'publicConfig.dltEntityId', rule: 'required' }],
    });
    // A change of the settings alone is parsed without the secret.
    expect(parsePublicConfig(definitionOf(one.provider), template)).toMatchObject({
      ok: false,
      details: [{ field: 'publicConfig.dltEntityId', rule: 'required' }],
    });
  });
});
