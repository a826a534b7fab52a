import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, test } from 'vitest';
import { CHANNELS } from '#core/domain/message/channel.ts';
import { unsupportedFields } from './guide.ts';
import { generateRegistry } from './generate.ts';
import { PROVIDERS } from './registry.gen.ts';
import {
  describeProvider,
  findProvider,
  parseAccount,
  lookupPaces,
  namesItsOwnIdAlone,
  reportsDeliveries,
  simulatorFor,
} from './registry.ts';

describe('the catalog', () => {
  test('contains exactly the provider folders, sorted by id', async () => {
    const root = new URL('./', import.meta.url);
    expect(await readFile(new URL('registry.gen.ts', root), 'utf8')).toBe(await generateRegistry(root));
    expect([...PROVIDERS.keys()]).toEqual([...PROVIDERS.keys()].toSorted());
    for (const [id, provider] of PROVIDERS) expect(provider.id).toBe(id);
  });

  test('has the providers of this release, and a simulator for every channel', () => {
    const ids = [
      'apns',
      'aws-sms',
      'fcm',
      'mailgun',
      'infobip',
      'infobip-whatsapp',
      'messagebird',
      'plivo',
      'postmark',
      'resend',
      'sendgrid',
      'sinch',
      'ses',
      'smtp',
      'telnyx',
      'twilio',
      'twilio-whatsapp',
      'vonage',
      'vonage-whatsapp',
      'whatsapp-cloud',
      ...CHANNELS.flatMap((one) => [`simulator-${one}`, `webhook-${one}`]),
    ];
    expect([...PROVIDERS.keys()]).toEqual(ids.toSorted());
    for (const channel of CHANNELS) expect(simulatorFor(channel).channel).toBe(channel);
    expect(findProvider('__proto__')).toBeUndefined();
  });

  test('describes settings by patterns without properties of Unicode, which Python cannot read', () => {
    for (const provider of PROVIDERS.values()) {
      const { publicConfigSchema, secretConfigSchema } = describeProvider(provider);
      for (const { properties = {} } of [publicConfigSchema, secretConfigSchema])
        for (const [field, { pattern = '' }] of Object.entries(
          properties as Record<string, { pattern?: string }>,
        ))
          expect([provider.id, field, pattern]).toEqual([
            provider.id,
            field,
            expect.not.stringMatching(/\\[pP]\{/),
          ]);
    }
  });

  test('is generated from the provider folders', async () => {
    await using folder = await temporaryFolder();
    await provider(folder.path, 'one', "{ id: 'one' }");
    await provider(folder.path, 'group/many', "[{ id: 'b' }, { id: 'a' }]");
    const text = await generateRegistry(folder.url);
    expect(text).toContain("import one from './one/provider.ts';");
    expect(text).toContain("import groupMany from './group/many/provider.ts';");
    expect(text).toContain("  | 'a'\n  | 'b'\n  | 'one';");
    expect(text).toContain('  ...groupMany,\n  one,');
  });

  test('uses lookup deduplication only for a provider with lookup by reference', () => {
    const asking = [...PROVIDERS.values()].filter(({ dedupe }) => dedupe === 'lookup');
    expect(asking.map(({ id, lookup }) => [id, lookup?.by])).toEqual([['sinch', 'reference']]);
  });

  test("lists the providers whose receipts may contain only the vendor's id", () => {
    const alone = [...PROVIDERS.values()].filter(namesItsOwnIdAlone);
    expect(alone.map(({ id }) => id)).toEqual(['aws-sms', 'sendgrid', 'ses']);
  });

  test('has a lookup pace per provider, of at most one lookup per second', () => {
    const paces = [...PROVIDERS.values()].flatMap(({ id, lookup }) =>
      lookup ? [[id, lookup.pace] as const] : [],
    );
    expect(Object.fromEntries(paces)).toMatchObject({
      // A team may make only two requests a second.
      resend: { everyMs: 10_000, atOnce: 1 },
      mailgun: { everyMs: 5_000, atOnce: 1 },
      twilio: { everyMs: 1_000, atOnce: 4 },
    });
    for (const [, { everyMs }] of paces) expect(everyMs).toBeGreaterThanOrEqual(1_000);
    expect(lookupPaces()).toEqual(paces.map(([provider, { atOnce }]) => ({ provider, most: atOnce })));
  });

  test('rejects two providers with the same id', async () => {
    await using folder = await temporaryFolder();
    await provider(folder.path, 'one', "{ id: 'same' }");
    await provider(folder.path, 'two', "{ id: 'same' }");
    await expect(generateRegistry(folder.url)).rejects.toThrow('Two providers have the id same');
  });

  test.each([...PROVIDERS.values()].map((one) => [one.id, one] as const))(
    'describes %s by JSON Schema',
    (_, one) => {
      const description = describeProvider(one);
      expect(description).toMatchObject({
        provider: one.id,
        channel: one.channel,
        capabilities: {
          dedupe: one.dedupe,
          receipts: reportsDeliveries(one),
          lookup: one.lookup?.by ?? 'none',
          bodyCharactersMax: one.bodyCharactersMax,
          unsupportedFields: unsupportedFields(one.guide),
        },
        page: `/docs/providers/${one.id}`,
        publicConfigSchema: { $schema: 'https://json-schema.org/draft/2020-12/schema', type: 'object' },
        secretConfigSchema: { type: 'object' },
      });
    },
  );
});

describe('an account', () => {
  const twilio = PROVIDERS.get('twilio');
  if (twilio === undefined) throw new Error('twilio is part of the catalog');

  test.each([
    ['publicConfig', undefined, {}],
    ['publicConfig', [], {}],
    ['secretConfig', { accountSid: `AC${'0'.repeat(32)}`, from: 'Acme' }, 'text'],
  ])('whose %s is not an object is rejected', (field, publicConfig, secretConfig) => {
    expect(parseAccount(twilio, publicConfig, secretConfig)).toMatchObject({
      ok: false,
      details: expect.arrayContaining([{ field, rule: 'type', message: 'Must be an object' }]) as unknown,
    });
  });

  test('may contain a field in both spellings only with the same value', () => {
    const sid = `AC${'0'.repeat(32)}`;
    const secretConfig = { authToken: 't' };
    const publicConfig = { accountSid: sid, account_sid: sid, from: 'Acme' };
    expect(parseAccount(twilio, publicConfig, secretConfig)).toMatchObject({ ok: true });
    expect(
      parseAccount(twilio, { ...publicConfig, account_sid: `AC${'1'.repeat(32)}` }, secretConfig),
    ).toMatchObject({
      ok: false,
      details: [{ field: 'publicConfig.accountSid', rule: 'conflict' }],
    });
  });

  test('may contain null for an absent field, in either spelling', () => {
    const sid = `AC${'0'.repeat(32)}`;
    const publicConfig = { accountSid: sid, account_sid: null, from: 'Acme', messagingServiceSid: null };
    const parsed = { ok: true, config: { accountSid: sid, from: 'Acme' }, secrets: { authToken: 't' } };
    expect(parseAccount(twilio, publicConfig, { auth_token: 't', authToken: null })).toEqual(parsed);
    expect(
      parseAccount(twilio, { ...publicConfig, accountSid: null, account_sid: sid }, { authToken: 't' }),
    ).toEqual(parsed);
    expect(parseAccount(twilio, publicConfig, { authToken: null })).toMatchObject({
      ok: false,
      details: [
        {
          field: 'secretConfig.authToken',
          rule: 'required',
          message: "Field 'secretConfig.authToken' is required",
        },
      ],
    });
  });

  test('may contain unknown keys, and inherited ones are ignored', () => {
    const publicConfig = { accountSid: `AC${'0'.repeat(32)}`, from: 'Acme', note: 'x', toString: 1 };
    expect(parseAccount(twilio, publicConfig, { authToken: 't' })).toEqual({
      ok: true,
      config: { accountSid: `AC${'0'.repeat(32)}`, from: 'Acme' },
      secrets: { authToken: 't' },
    });
    expect(parseAccount(twilio, Object.create(publicConfig), { authToken: 't' })).toMatchObject({
      ok: false,
    });
  });
});

async function temporaryFolder(): Promise<AsyncDisposable & { readonly path: string; readonly url: URL }> {
  const path = await mkdtemp(join(tmpdir(), 'registry-'));
  return { path, url: pathToFileURL(`${path}/`), [Symbol.asyncDispose]: () => rm(path, { recursive: true }) };
}

async function provider(root: string, folder: string, definition: string): Promise<void> {
  await mkdir(join(root, folder), { recursive: true });
  await writeFile(join(root, folder, 'provider.ts'), `export default ${definition};\n`);
}
