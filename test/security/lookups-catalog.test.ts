import { describe, expect, test } from 'vitest';
import { createProviderContexts } from '#providers/context.ts';
import type { LookupQuestion } from '#providers/lookup.ts';
import type { AnyProvider, HttpRequest, HttpResult } from '#providers/provider.ts';
import { parseAccount } from '#providers/registry.ts';
import { PROVIDERS, type ProviderKind } from '#providers/registry.gen.ts';
import { CATALOG_ACCOUNTS } from '#test/support/catalog-accounts.ts';
import { HOSTILE_SETTINGS, isOurs } from './hostile-settings.ts';

const MESSAGE_ID = '7f3b2a34-1111-4222-8333-444455556666';
const HARMLESS = 'vendor-id-1';
/** Message ids that a vendor, or an attacker in its name, may have returned. */
const HOSTILE_IDS = [
  '../../x?y#z',
  '..',
  '.',
  '../..',
  '..\\..\\x',
  '/',
  '//attack.example/x',
  'https://attack.example/x',
  '@attack.example',
  '?x=1&client_reference=x',
  '#z',
  '%2e%2e%2fx',
  '..%2f',
  '%00',
  'a\r\nX-Injected: b',
  'a\r\n\r\nGET /injected HTTP/1.1',
  'a\nb',
  'a\0b',
  'a b\tc',
  ';x=1',
  'a&message-id=b',
  'a/../../b',
  '\u2028\u2029\u0085',
  '\u{1f600}\u202e',
  'x'.repeat(512),
] as const;

const ASKED = [...PROVIDERS.values()].filter(({ lookup }) => lookup !== undefined);

type Reply = (request: HttpRequest) => HttpResult;
const nobody: Reply = () => ({ kind: 'not_sent', code: 'connect_refused' });
const says = (body: unknown): HttpResult => ({
  kind: 'response',
  status: 200,
  headers: { 'content-type': 'application/json' },
  text: JSON.stringify(body),
});

/** The requests that a lookup would send; undefined where the settings are refused. */
async function requestsOf(
  provider: AnyProvider,
  question: LookupQuestion,
  publicConfig: object = CATALOG_ACCOUNTS[provider.id as ProviderKind].publicConfig,
  reply: Reply = nobody,
): Promise<HttpRequest[] | undefined> {
  const { secretConfig } = CATALOG_ACCOUNTS[provider.id as ProviderKind];
  const account = parseAccount(provider, publicConfig, secretConfig);
  if (!account.ok) return undefined;
  const requests: HttpRequest[] = [];
  const contexts = createProviderContexts({
    async http(request) {
      requests.push(request);
      return reply(request);
    },
    resolve: async () => ({ kind: 'refused', code: 'egress_blocked' }),
  });
  const signal = AbortSignal.timeout(10_000);
  const context = contexts({ provider: provider.id, accountId: 'account', version: 1, until: signal });
  await provider.lookup?.ask(question, account as never, context);
  return requests;
}

const domainOf = (hostname: string): string => hostname.split('.').slice(-2).join('.');
const byId = (providerMessageId: string): LookupQuestion => ({ messageId: MESSAGE_ID, providerMessageId });
const BY_REFERENCE: LookupQuestion = { messageId: MESSAGE_ID, providerMessageId: null };

/**
 * Everything of a request except the id it asks about, which must be exactly one segment of the path or one value of the query.
 */
function frameOf(request: HttpRequest, id: string): unknown {
  const { method, url, headers = {}, body, isTenantHost } = request;
  // oxlint-disable-next-line no-control-regex -- they are what is looked for
  expect(url).not.toMatch(/[\0-\x20\x7f]/);
  const { origin, username, pathname, search, hash } = new URL(url);
  // Parsing the URL leaves it unchanged: it contains no `..` that would climb the path.
  expect(url).toBe(origin + pathname + search);
  const places: string[] = [];
  const mask = (text: string, place: string): string => {
    if (text !== id) return text;
    places.push(place);
    return '(id)';
  };
  const path = pathname
    .split('/')
    .map((part) => mask(decodeURIComponent(part.replace(/\.json$/, '')), 'path'));
  const query = [...new URLSearchParams(search)].map(([name, value]) => [name, mask(value, 'query')]);
  expect(places).toHaveLength(1);
  return { method, origin, username, path, query, hash, headers, body, isTenantHost };
}

test('the catalog has providers with a lookup', () => {
  expect(ASKED.map(({ id }) => id)).toEqual(
    expect.arrayContaining([
      'infobip',
      'mailgun',
      'messagebird',
      'plivo',
      'resend',
      'sinch',
      'telnyx',
      'twilio',
    ]),
  );
});

describe.each(ASKED)('$id', (provider) => {
  const { publicConfig } = CATALOG_ACCOUNTS[provider.id as ProviderKind];

  test('gets any message id as exactly one path segment or query value', async () => {
    const [harmless] = (await requestsOf(provider, byId(HARMLESS))) ?? [];
    if (harmless === undefined) throw new Error('nothing was asked');
    const frame = frameOf(harmless, HARMLESS);
    for (const id of HOSTILE_IDS) {
      const [request, ...others] = (await requestsOf(provider, byId(id))) ?? [];
      expect(others).toEqual([]);
      // Some servers treat a segment of dots as a step up, in any encoding. The adapters send no request for such an id.
      if (request === undefined && /^\.{1,2}$/.test(id)) continue;
      expect({ id, frame: request && frameOf(request, id) }).toEqual({ id, frame });
    }
  });

  test("gets lookups at its own hosts, or at a tenant's host through the egress guard", async () => {
    const questions = [byId(HARMLESS), ...(provider.lookup?.by === 'reference' ? [BY_REFERENCE] : [])];
    const plain = await requestsOf(provider, byId(HARMLESS));
    const ownDomain = domainOf(new URL(plain?.[0]?.url ?? '').hostname);
    const changed = Object.keys(provider.config.shape).flatMap((field) =>
      HOSTILE_SETTINGS.map((value) => ({ [field]: value })),
    );
    let asked = 0;
    for (const change of [{}, ...changed]) {
      for (const question of questions) {
        const requests = await requestsOf(provider, question, { ...publicConfig, ...change });
        for (const { url, isTenantHost } of requests ?? []) {
          asked += 1;
          const { hostname, username, protocol } = new URL(url);
          expect({ change, username, protocol }).toEqual({ change, username: '', protocol: 'https:' });
          if (isTenantHost === true) continue;
          expect({ change, hostname, isOurs: isOurs(hostname) }).toMatchObject({ isOurs: false });
          expect({ change, domain: domainOf(hostname) }).toEqual({ change, domain: ownDomain });
        }
      }
    }
    expect(asked).toBeGreaterThan(0);
  });
});

test('a hostile id that Sinch returns for our reference changes no other part of the request', async () => {
  const sinch = PROVIDERS.get('sinch') as AnyProvider;
  const found =
    (id: string): Reply =>
    ({ url }) =>
      new URL(url).searchParams.has('client_reference')
        ? says({ batches: [{ id, client_reference: MESSAGE_ID }] })
        : says({ statuses: [] });
  const second = async (id: string): Promise<HttpRequest | undefined> => {
    const requests = await requestsOf(sinch, BY_REFERENCE, undefined, found(id));
    return requests?.[1];
  };
  const frameOfSecond = async (id: string): Promise<unknown> => {
    const request = await second(id);
    return request && frameOf(request, id);
  };
  const frame = await frameOfSecond(HARMLESS);
  expect(frame).toBeDefined();
  for (const id of HOSTILE_IDS.filter((one) => !/^\.{1,2}$/.test(one)))
    expect({ id, frame: await frameOfSecond(id) }).toEqual({ id, frame });
  expect(await second('..')).toBeUndefined();
});
