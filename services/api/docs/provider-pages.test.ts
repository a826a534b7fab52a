import { generateKeyPairSync, createSecretKey } from 'node:crypto';
import fastify from 'fastify';
import { afterAll, describe, expect, test } from 'vitest';
import { silentLogger } from '#core/platform/telemetry/logger.ts';
import { PEM_EXAMPLE } from '#providers/guide.ts';
import type { AnyProvider } from '#providers/provider.ts';
import { PROVIDERS } from '#providers/registry.gen.ts';
import { parseAccount } from '#providers/registry.ts';
import { buildApp } from '../app.ts';
import { SendMessage } from '../messages/send-message-schema.ts';
import { installDocsPage } from './docs-page.ts';
import { describeMessageFields } from './message-fields.ts';

const app = fastify();
installDocsPage(app, {
  document: () => ({ info: { title: 'Despatch', description: 'What it is.' }, paths: {} }),
  serverUrl: 'https://api.example.com',
});
afterAll(() => app.close());

const pageOf = async (path: string) => (await app.inject(path)).payload;
const unescaped = (html: string) =>
  html
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&amp;', '&');

/** Returns the bodies of the page's calls to a path, as a shell would pass them to curl. */
function bodiesOf(page: string, path: string): Record<string, unknown>[] {
  return [...page.matchAll(/<pre><code>([\s\S]*?)<\/code><\/pre>/g)]
    .map(([, text = '']) => unescaped(text))
    .filter((text) => text.includes(`"$DESPATCH_URL${path}"`))
    .map((text) => {
      const quoted = text.slice(text.indexOf("-d '") + 4, text.lastIndexOf("'"));
      return JSON.parse(quoted.replaceAll(String.raw`'\''`, "'")) as Record<string, unknown>;
    });
}

const PEMS = [
  generateKeyPairSync('rsa', { modulusLength: 2048 }),
  generateKeyPairSync('ec', { namedCurve: 'prime256v1' }),
].map(({ privateKey }) => privateKey.export({ type: 'pkcs8', format: 'pem' }).toString());

/** Returns how the api parses an account whose key placeholder is replaced by a key of either kind. */
function parsedWithKey(provider: AnyProvider, publicConfig: unknown, secretConfig: unknown) {
  const results = PEMS.map((pem) => {
    const text = JSON.stringify(secretConfig).replaceAll(JSON.stringify(PEM_EXAMPLE), JSON.stringify(pem));
    return parseAccount(provider, publicConfig, JSON.parse(text));
  });
  return results.find(({ ok }) => ok) ?? results[0];
}

describe.each([...PROVIDERS])('the page of %s', (id, provider) => {
  const read = () => pageOf(`/docs/providers/${id}`);

  test('has a strict content security policy and no scripts, images or frames', async () => {
    const answer = await app.inject(`/docs/providers/${id}`);
    expect(answer.statusCode).toBe(200);
    expect(answer.headers).toMatchObject({
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': expect.stringMatching(
        /^default-src 'none'; style-src 'sha256-[\w+/=]{44}'; base-uri 'none'/,
      ) as string,
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
    });
    expect(answer.payload).not.toMatch(/<script|<img|<iframe|<link rel="stylesheet"| on\w+="/i);
    expect(answer.payload).toContain(`<h1>${provider.name}</h1>`);
  });

  test('lists every setting, secret, message field and setup step', async () => {
    const page = unescaped(await read());
    const [, settings = '', secrets = ''] =
      /id="settings">([\s\S]*?)id="secrets">([\s\S]*?)id="create">/.exec(page) ?? [];
    const namesIn = (section: string) =>
      [...section.matchAll(/<tr><td><code>(\w+)<\/code>/g)].map(([, name]) => name);
    expect(namesIn(settings)).toEqual(Object.keys(provider.config.shape));
    expect(namesIn(secrets)).toEqual(Object.keys(provider.secrets.shape));
    for (const { field } of describeMessageFields(provider.channel))
      expect(page).toContain(`<td><code>${field}</code></td>`);
    expect(
      describeMessageFields(provider.channel)
        .map(({ field }) => field)
        .toSorted(),
    ).toEqual(Object.keys(provider.guide.fields).toSorted());
    const receipts = provider.receipts;
    const steps = receipts === null || receipts === 'simulated' ? [] : receipts.setup.steps;
    for (const step of steps) expect(page).toContain(`<li>${step}</li>`);
  });

  test('shows an account request that the API accepts', async () => {
    const [body, ...more] = bodiesOf(await read(), '/v1/admin/providers');
    expect(more).toEqual([]);
    const { publicConfig, secretConfig } = body as Record<string, Record<string, unknown>>;
    expect(body).toMatchObject({ provider: id, label: expect.stringMatching(/^.{2,80}$/) as string });
    expect(parsedWithKey(provider, publicConfig, secretConfig)).toMatchObject({ ok: true });
    // The parser silently ignores unknown settings, so the names are compared.
    expect(Object.keys(provider.config.shape)).toEqual(
      expect.arrayContaining(Object.keys(publicConfig ?? {})),
    );
    expect(Object.keys(provider.secrets.shape)).toEqual(
      expect.arrayContaining(Object.keys(secretConfig ?? {})),
    );
  });

  test('explains every variable of its commands before the first one', async () => {
    const [, before = '', commands = ''] = /^([\s\S]*?)(<pre>[\s\S]*)$/.exec(await read()) ?? [];
    const used = new Set([...commands.matchAll(/\$([A-Z_]+)/g)].map(([, name]) => name));
    expect(used.size).toBeGreaterThan(2);
    expect([...used].filter((name) => !before.includes(`<code>${name}</code>`))).toEqual([]);
  });

  test('shows message requests that the API accepts', async () => {
    const bodies = bodiesOf(await read(), '/v1/messages');
    expect(bodies.length).toBeGreaterThan(0);
    for (const body of bodies) {
      expect(body['channel']).toBe(provider.channel);
      const parsed = SendMessage.safeParse(body);
      expect(parsed.error?.issues).toBeUndefined();
      expect(Object.keys(parsed.data ?? {})).toEqual(expect.arrayContaining(Object.keys(body)));
    }
  });

  test('links only to https URLs, and every internal link is answered 200', async () => {
    const links = [...(await read()).matchAll(/ href="([^"]*)"/g)]
      .map(([, link = '']) => unescaped(link))
      .filter((link) => link !== 'data:,');
    expect(links).toContain('../providers');
    for (const link of links) {
      const url = new URL(link, `https://api.example.com/docs/providers/${id}`);
      expect(url.protocol).toBe('https:');
      if (url.host === 'api.example.com') expect((await app.inject(url.pathname)).statusCode).toBe(200);
      else expect(link).toMatch(/^https:\/\/(?:[a-z0-9-]+\.)+[a-z]{2,}(?:\/[\w./#-]*)?$/);
    }
  });
});

test('the provider list links to every provider page, and a trailing slash redirects to it', async () => {
  const page = await pageOf('/docs/providers');
  const links = [...page.matchAll(/ href="(providers\/[^"]*)"/g)].map(([, link = '']) => link);
  expect(links.toSorted()).toEqual([...PROVIDERS.keys()].map((id) => `providers/${id}`).toSorted());
  const slash = await app.inject('/docs/providers/');
  expect([slash.statusCode, slash.headers['location']]).toEqual([308, '../providers']);
});

test('the guide to provider accounts links to every provider page', async () => {
  const { info } = (await app.inject('/docs/openapi.json')).json<{ info: { description: string } }>();
  for (const id of PROVIDERS.keys())
    expect(info.description).toContain(`[${id}](https://api.example.com/docs/providers/${id})`);
});

test.each(['nothing', '__proto__', '..%2f..%2fetc', '%3Cscript%3E'])(
  'the page of an unknown provider is answered 404: %s',
  async (name) => {
    await using whole = await buildApp(
      {
        readmit: (caller) => caller,
        authenticate: () => Promise.resolve({ caller: null }),
        log: silentLogger,
        metrics: {
          routeKnown: () => {},
          requestMemory: { from: () => {} },
          bodyRefused: () => {},
          requestStarted: () => {},
          requestAnswered: () => {},
          requestFinished: () => {},
        },
        fingerprintKey: createSecretKey(Buffer.alloc(32)),
        trustProxy: false,
        publicBaseUrl: 'http://api.test',
      },
      [],
    );
    expect((await whole.inject('/docs/providers/twilio')).statusCode).toBe(200);
    const answer = await whole.inject(`/docs/providers/${name}`);
    expect(answer.statusCode).toBe(404);
    expect(answer.json()).toMatchObject({ code: 'not_found' });
  },
);
