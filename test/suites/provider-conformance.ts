import { createServer, type AddressInfo, type Socket } from 'node:net';
import { decodeJwt } from 'jose';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import type { OutboundMessage } from '#core/domain/message/content.ts';
import type { Outcome } from '#core/domain/sending/outcome.ts';
import { createHttpClient, type HttpClient } from '#core/platform/http/http-client.ts';
import { createProviderContexts } from '#providers/context.ts';
import type { AnyProvider, ProviderContext, Verification } from '#providers/provider.ts';
import { secretStrings } from '#providers/redact.ts';
import { describeProvider, parseAccount, parsePublicConfig, parseSettings } from '#providers/registry.ts';
import { secretRouteChanges } from '#providers/secret-route.ts';
import { startStandIn, type Received, type Reply, type StandIn } from '#providers/stand-in.ts';

export type SentAccount = {
  readonly publicConfig: Readonly<Record<string, unknown>>;
  readonly secretConfig: Readonly<Record<string, unknown>>;
};

export type HttpProviderCase = {
  readonly provider: AnyProvider;
  readonly startStandIn: () => Promise<StandIn>;
  /** The account as a tenant sends it; its secrets are the canaries that must not appear anywhere. */
  readonly account: SentAccount;
  /** Another valid value for every setting. */
  readonly otherSettings: Readonly<Record<string, unknown>>;
  readonly message: OutboundMessage;
  /** The path of the request that carries the message. */
  readonly sendPath: RegExp;
  /** The path whose answer decides the credential check. */
  readonly verifyPath: RegExp;
  /** Checks the request that the provider received for `message`, completely. */
  readonly request: (received: Received) => void;
  readonly providerMessageId: RegExp;
  /** The account's own sender, used for a message without one; undefined where a message always names one. */
  readonly sender: string | undefined;
  /** Returns the vendor's usual error body with a given text. */
  readonly errorBody: (text: string) => unknown;
  /** One refusal for each error class of the vendor. */
  readonly refusals: readonly { readonly reply: Reply; readonly outcome: Outcome }[];
  /** The vendor's answer to a credential check with a wrong credential. */
  readonly wrongCredential: Reply;
  /** Invalid accounts, with their faulty fields. */
  readonly invalidAccounts: readonly { readonly account: SentAccount; readonly fields: readonly string[] }[];
};

const PAGE: Reply = {
  status: 502,
  headers: { 'content-type': 'text/html' },
  body: '<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>',
};

/** Runs the tests that apply to every provider that uses HTTP. */
export function httpProviderSuite(subject: HttpProviderCase): void {
  const { message, sendPath, verifyPath } = subject;
  // A PEM key is searched for line by line, because JSON escapes its line breaks.
  const secrets = secretStrings(subject.account.secretConfig)
    .flatMap((secret) => secret.split('\n'))
    .filter((line) => line !== '' && !line.startsWith('-----'));
  let http: HttpClient;
  let standIn: StandIn;
  let printed: string[];

  beforeAll(() => void (http = createHttpClient()));
  afterAll(() => http[Symbol.asyncDispose]());
  beforeEach(async () => {
    standIn = await subject.startStandIn();
    printed = recordPrinting();
  });
  afterEach(async () => {
    vi.restoreAllMocks();
    await standIn[Symbol.asyncDispose]();
    for (const secret of secrets) expect(printed.join('')).not.toContain(secret);
  });

  const send = (origin = standIn.origin, until = longEnough()) => sendTo(subject, http, origin, until);
  const verify = (until = longEnough()) => verifyAt(subject, http, standIn.origin, until);
  const shownSecrets = (results: readonly (Outcome | Verification)[]): string[] =>
    secrets.filter((secret) => JSON.stringify(results).includes(secret));

  describe('a message', () => {
    test('is sent as one complete request and accepted with its id', async () => {
      const outcome = await send();
      expect(outcome).toMatchObject({
        kind: 'accepted',
        providerMessageId: expect.stringMatching(subject.providerMessageId),
      });
      expect((outcome as { sender?: string }).sender).toBe(subject.sender);
      const sent = standIn.received.filter((one) => sendPath.test(one.path));
      expect(sent).toHaveLength(1);
      subject.request(sent[0] as Received);
    });

    test.each(subject.refusals)(
      'refused with $reply.status and $outcome.failure.providerCode is $outcome.kind, $outcome.failure.class',
      async ({ reply, outcome }) => {
        standIn.fail({ kind: 'reply', ...reply }, sendPath);
        expect(await send()).toMatchObject(outcome);
      },
    );

    test.each([
      ['absent', undefined, undefined],
      ['in seconds', '7', 7_000],
      ['garbage', 'soon', undefined],
      ['too long', '86400', 900_000],
    ])('throttled with Retry-After %s has the matching delay', async (_, retryAfter, retryAfterMs) => {
      const headers: Record<string, string> = retryAfter === undefined ? {} : { 'retry-after': retryAfter };
      standIn.fail({ kind: 'reply', status: 429, headers, body: '' }, sendPath);
      const outcome = await send();
      expect(outcome).toMatchObject({
        kind: 'rejected_transient',
        failure: { class: 'provider_throttled', httpStatus: 429 },
      });
      expect((outcome as { retryAfterMs?: number }).retryAfterMs).toBe(retryAfterMs);
    });

    test.each([500, 502, 503])('answered with %i is transient', async (status) => {
      standIn.fail({ kind: 'reply', status, body: '' }, sendPath);
      expect(await send()).toMatchObject({
        kind: 'rejected_transient',
        failure: { class: 'provider_unavailable', httpStatus: status },
      });
    });

    test.each([
      [504, ''],
      [504, '<html>'],
      [524, '<html>'],
    ])(
      'answered with %i and the body "%s" is ambiguous, because a gateway had passed it on',
      async (status, body) => {
        standIn.fail({ kind: 'reply', status, body }, sendPath);
        expect(await send()).toEqual({
          kind: 'ambiguous',
          failure: { class: 'provider_unavailable', code: `http_${status}`, httpStatus: status },
        });
        expect(standIn.received.filter((one) => sendPath.test(one.path))).toHaveLength(1);
      },
    );

    test.each([400, 403, 404, 502])(
      'answered with an HTML page and %i is transient, because the provider did not answer',
      async (status) => {
        standIn.fail({ kind: 'reply', ...PAGE, status }, sendPath);
        const outcome = await send();
        expect(outcome).toMatchObject({
          kind: 'rejected_transient',
          failure: { class: 'provider_unavailable' },
        });
        expect(JSON.stringify(outcome)).not.toContain('nginx');
      },
    );

    test.each([
      [404, ''],
      [404, 'default backend - 404'],
      [404, { message: 'no Route matched with those values' }],
      [405, ''],
      [407, ''],
      [410, ''],
      [421, ''],
    ])(
      'answered with %i and the body %j is transient, because a gateway without the API would refuse every message',
      async (status, body) => {
        standIn.fail({ kind: 'reply', status, body }, sendPath);
        expect(await send()).toMatchObject({
          kind: 'rejected_transient',
          failure: { httpStatus: status },
        });
      },
    );

    test('answered with 401 is a transient auth_or_config failure', async () => {
      standIn.fail({ kind: 'reply', status: 401, body: subject.errorBody('no') }, sendPath);
      standIn.fail({ kind: 'reply', status: 401, body: subject.errorBody('no') }, sendPath);
      expect(await send()).toMatchObject({
        kind: 'rejected_transient',
        failure: { class: 'auth_or_config', httpStatus: 401 },
      });
    });

    test('without a connection in time is transient', async () => {
      const deadline = new AbortController();
      await using silent = await startSilentServer(() => deadline.abort());
      expect(await send(`https://127.0.0.1:${silent.port}`, deadline.signal)).toMatchObject({
        kind: 'rejected_transient',
        failure: { class: 'provider_unavailable', code: expect.stringMatching(/timeout/) },
      });
    });

    test('whose connection is refused is transient', async () => {
      const { origin } = standIn;
      // The next stand-in starts first, because it could otherwise get the freed port.
      const next = await subject.startStandIn();
      await standIn[Symbol.asyncDispose]();
      standIn = next;
      expect(await send(origin)).toMatchObject({
        kind: 'rejected_transient',
        failure: { code: 'connect_refused' },
      });
    });

    test.each([['hang'], ['reset']] as const)(
      'that was received and followed by a %s is ambiguous',
      async (kind) => {
        const deadline = new AbortController();
        standIn.fail({ kind, onReached: () => deadline.abort() }, sendPath);
        expect(await send(standIn.origin, deadline.signal)).toMatchObject({
          kind: 'ambiguous',
          failure: { class: 'provider_unavailable' },
        });
        expect(standIn.received.filter((one) => sendPath.test(one.path))).toHaveLength(1);
      },
    );

    test('refused with a truncated body is classified by its status', async () => {
      standIn.fail({ kind: 'broken-body', status: 503 }, sendPath);
      expect(await send()).toMatchObject({ kind: 'rejected_transient', failure: { httpStatus: 503 } });
    });

    test('refused with an oversized body is classified by its status', async () => {
      standIn.fail({ kind: 'reply', status: 503, body: `{"x":"${'y'.repeat(200_000)}"}` }, sendPath);
      expect(await send()).toMatchObject({ kind: 'rejected_transient', failure: { httpStatus: 503 } });
    });

    test.each([
      ['a page', PAGE.body],
      ['an oversized body', `{"x":"${'y'.repeat(200_000)}"}`],
    ])('answered with a success status and %s is ambiguous', async (_, body) => {
      standIn.fail({ kind: 'reply', status: 200, headers: { 'content-type': 'text/html' }, body }, sendPath);
      expect((await send()).kind).toBe('ambiguous');
    });

    test.each([301, 302, 303, 307, 308])('answered with %i does not follow the redirect', async (status) => {
      await using elsewhere = await startStandIn(() => ({ status: 200, body: {} }));
      const headers = { location: `${elsewhere.origin}/elsewhere` };
      standIn.fail({ kind: 'reply', status, headers, body: '' }, sendPath);
      expect((await send()).kind).not.toBe('accepted');
      standIn.fail({ kind: 'reply', status, headers, body: '' }, verifyPath);
      expect((await verify()).kind).not.toBe('valid');
      expect(elsewhere.received).toEqual([]);
    });

    test.each([400, 401, 429, 500, 302])(
      'answered with %i and secrets in the headers shows none of them',
      async (status) => {
        const echoed = secrets.join(' ');
        const names = ['retry-after', 'location', 'www-authenticate', 'x-request-id', 'server'];
        const headers = Object.fromEntries(names.map((name) => [name, echoed]));
        for (const path of [sendPath, sendPath, verifyPath]) {
          standIn.fail({ kind: 'reply', status, headers, body: subject.errorBody(echoed) }, path);
        }
        expect(shownSecrets([await send(), await verify()])).toEqual([]);
      },
    );

    test.each<[name: string, origin: (port: string) => string, code: string]>([
      ['a malformed origin', () => 'http://[::broken', 'invalid_url'],
      ['an origin of another scheme', () => 'ftp://127.0.0.1', 'invalid_url'],
      ['a server without TLS', (port) => `https://127.0.0.1:${port}`, 'tls'],
      ['a closed port', () => 'http://127.0.0.1:1', 'connect_refused'],
      ['an unknown host name', () => 'http://unknown.invalid', 'dns'],
    ])('for %s is transient, with the cause and without secrets', async (_, origin, code) => {
      await using nameless = createHttpClient({
        lookup: (_host, _options, done) =>
          done(Object.assign(new Error('unknown'), { code: 'ENOTFOUND' }), ''),
      });
      const at = origin(new URL(standIn.origin).port);
      const outcome = await sendTo(subject, nameless, at, longEnough());
      const verification = await verifyAt(subject, nameless, at, longEnough());
      const failure = {
        class: 'provider_unavailable',
        code,
        providerMessage: expect.stringMatching(/\w{3}/) as string,
      };
      expect([outcome, verification]).toMatchObject([
        { kind: 'rejected_transient', failure },
        { kind: 'unknown', failure },
      ]);
      expect(JSON.stringify([outcome, verification])).not.toMatch(/127\.0\.0\.1|invalid\b(?!_)|:\d{2,5}\b/);
      expect(shownSecrets([outcome, verification])).toEqual([]);
      expect(standIn.received).toEqual([]);
    });

    test('whose refusal repeats secrets, recipient and control characters shows none of them', async () => {
      const echo = `line\u0000one\r\n${secrets.join(' ')} ${secrets.map((one) => btoa(one)).join(' ')} ${message.to}`;
      standIn.fail({ kind: 'reply', status: 400, body: subject.errorBody(echo) }, sendPath);
      const outcome = await send();
      const text = JSON.stringify(outcome);
      for (const hidden of [...secrets, ...secrets.map((one) => btoa(one)), message.to])
        expect(text).not.toContain(hidden);
      const { failure } = outcome as { failure: { providerMessage?: string } };
      expect(failure.providerMessage ?? '').not.toMatch(/\p{Cc}/u);
      expect((failure.providerMessage ?? '').length).toBeLessThanOrEqual(300);
    });
  });

  describe('the credential check', () => {
    test('returns valid for a working credential', async () => {
      expect(await verify()).toEqual({ kind: 'valid' });
      expect(standIn.received.length).toBeGreaterThan(0);
    });

    test('returns invalid for a refused credential', async () => {
      standIn.fail({ kind: 'reply', ...subject.wrongCredential }, verifyPath);
      const verification = await verify();
      expect(verification).toMatchObject({ kind: 'invalid', failure: { class: 'auth_or_config' } });
      for (const secret of secrets) expect(JSON.stringify(verification)).not.toContain(secret);
    });

    test.each([
      ['a page', { kind: 'reply', ...PAGE }],
      ['an HTML 403', { kind: 'reply', ...PAGE, status: 403 }],
      ['503', { kind: 'reply', status: 503, body: '' }],
      ['504', { kind: 'reply', status: 504, body: '' }],
      ['429', { kind: 'reply', status: 429, body: '' }],
      ['a timeout', { kind: 'hang' }],
      ['a reset', { kind: 'reset' }],
    ] as const)('returns unknown when the provider answers with %s', async (_, fault) => {
      const deadline = new AbortController();
      const timed = { ...fault, onReached: () => deadline.abort() };
      standIn.fail(timed, verifyPath);
      expect(await verify(deadline.signal)).toMatchObject({ kind: 'unknown' });
    });
  });

  describe('the route of the secret', () => {
    test.each(Object.keys(subject.otherSettings))(
      'is declared correctly for the setting %s',
      async (field) => {
        const { provider, account, otherSettings } = subject;
        const other = { ...account.publicConfig, [field]: otherSettings[field] };
        const declared = secretRouteChanges(provider, account.publicConfig, other).length > 0;
        expect(declared).toBe(provider.secretRoute[field] !== false);
        const isMoved = (await routesOf(subject, other)) !== (await routesOf(subject, account.publicConfig));
        // Every setting that moves the secret must be declared; further settings may be declared too.
        if (isMoved) expect(declared).toBe(true);
      },
    );
  });

  accountSuite(subject);
}

/** Returns the destinations of one message and one credential check, and what their calls show of the credential. */
async function routesOf(subject: HttpProviderCase, publicConfig: unknown): Promise<string> {
  const { provider, account, message } = subject;
  const config = parseSettings(provider, publicConfig);
  if (!config.ok)
    throw new Error(`The suite was given a setting that is not valid: ${JSON.stringify(config)}`);
  const parsed = parseAccount(provider, account.publicConfig, account.secretConfig);
  const credentials = { config: config.value, secrets: parsed.ok ? parsed.secrets : {} } as never;
  const calls: unknown[] = [];
  const contexts = createProviderContexts({
    async http({ url, headers }) {
      calls.push([url, credentialIn(headers?.['authorization'])]);
      const body = { access_token: 'token', expires_in: 3_600 };
      return { kind: 'response', status: 200, headers: {}, text: JSON.stringify(body) };
    },
    resolve: async () => ({ kind: 'refused', code: 'dns' }),
  });
  const context = contexts({
    provider: provider.id,
    accountId: 'account',
    version: 1,
    until: longEnough(),
  });
  await provider.send(message as never, credentials, context);
  await provider.verify(credentials, context);
  return JSON.stringify(calls);
}

/**
 * Reduces a credential to the parts that do not differ between calls. What an adapter signs itself differs each time and reveals
 * nothing of its key: a token is reduced to its other claims, an AWS signature to the fields it covers.
 */
function credentialIn(authorization: string | undefined): string | undefined {
  try {
    const { iat: _, exp: __, jti: ___, ...other } = decodeJwt((authorization ?? '').replace(/^bearer /i, ''));
    return JSON.stringify(other);
  } catch {
    return authorization?.replace(/Signature=[0-9a-f]{64}$/, '');
  }
}

/** Runs the tests of a provider's account schema. */
export function accountSuite(
  subject: Pick<HttpProviderCase, 'provider' | 'account' | 'otherSettings' | 'invalidAccounts'>,
): void {
  const { provider, account, otherSettings } = subject;

  describe('the account', () => {
    test('is accepted with keys in camelCase and in snake_case', () => {
      const camel = parseAccount(provider, account.publicConfig, account.secretConfig);
      expect(camel).toMatchObject({ ok: true });
      expect(
        parseAccount(provider, snakeCased(account.publicConfig), snakeCased(account.secretConfig)),
      ).toEqual(camel);
    });

    test.each(subject.invalidAccounts)(
      'with a fault in $fields is rejected without showing a value',
      ({ account: sent, fields }) => {
        const parsed = parseAccount(provider, sent.publicConfig, sent.secretConfig);
        expect(parsed.ok).toBe(false);
        const details = parsed.ok ? [] : parsed.details;
        expect(details.map(({ field }) => field)).toEqual(fields);
        for (const value of secretStrings([sent.publicConfig, sent.secretConfig])) {
          if (value !== '') expect(JSON.stringify(details)).not.toContain(value);
        }
      },
    );

    test('is unchanged by parsing it twice', () => {
      const once = parseAccount(provider, account.publicConfig, account.secretConfig);
      if (!once.ok) throw new Error('The suite was given an account that is not valid');
      expect(parseAccount(provider, once.config, once.secrets)).toEqual(once);
    });

    test('declares for every setting whether it affects the route of the secret', () => {
      expect(Object.keys(provider.secretRoute).toSorted()).toEqual(
        Object.keys(provider.config.shape).toSorted(),
      );
      expect(Object.keys(otherSettings).toSorted()).toEqual(Object.keys(provider.config.shape).toSorted());
    });

    test('keeps its secret route if defaults are written out or spelling changes', () => {
      const parsed = parsePublicConfig(provider, account.publicConfig);
      const spelled = parsed.ok ? parsed.value : {};
      expect(secretRouteChanges(provider, account.publicConfig, spelled)).toEqual([]);
      expect(secretRouteChanges(provider, snakeCased(account.publicConfig), account.publicConfig)).toEqual(
        [],
      );
    });

    test('is documented field by field in the catalog', () => {
      const { publicConfigSchema, secretConfigSchema } = describeProvider(provider);
      for (const schema of [publicConfigSchema, secretConfigSchema]) {
        for (const property of Object.values(
          (schema['properties'] ?? {}) as Record<string, { description?: string }>,
        )) {
          expect(property.description).toMatch(/\w{3}/);
        }
      }
    });
  });
}

/** A deadline that passes in no test. */
function longEnough(): AbortSignal {
  return AbortSignal.timeout(20_000);
}

/** Returns a context for one call of a provider whose origin is overridden. */
export function contextAt(
  provider: AnyProvider,
  http: HttpClient,
  origin: string,
  until = longEnough(),
): ProviderContext {
  const contexts = createProviderContexts({
    http,
    resolve: async () => ({ kind: 'refused', code: 'egress_blocked' }),
    baseUrls: { [provider.id]: origin },
  });
  return contexts({ provider: provider.id, accountId: 'account', version: 1, until });
}

function sendTo(
  subject: HttpProviderCase,
  http: HttpClient,
  origin: string,
  until: AbortSignal,
): Promise<Outcome> {
  const context = contextAt(subject.provider, http, origin, until);
  return subject.provider.send(subject.message as never, accountOf(subject) as never, context);
}

function verifyAt(
  subject: HttpProviderCase,
  http: HttpClient,
  origin: string,
  until: AbortSignal,
): Promise<Verification> {
  const context = contextAt(subject.provider, http, origin, until);
  return subject.provider.verify(accountOf(subject) as never, context);
}

function accountOf({ provider, account }: HttpProviderCase) {
  const parsed = parseAccount(provider, account.publicConfig, account.secretConfig);
  if (!parsed.ok) throw new Error(`The suite's account is not valid: ${JSON.stringify(parsed.details)}`);
  return { config: parsed.config, secrets: parsed.secrets };
}

function snakeCased(record: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const spell = (key: string) => key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [spell(key), value]));
}

/** Records everything printed during a test: an adapter must print nothing, least of all secrets. */
function recordPrinting(): string[] {
  const printed: string[] = [];
  for (const method of ['log', 'info', 'warn', 'error', 'debug'] as const) {
    vi.spyOn(console, method).mockImplementation(
      (...parts: unknown[]) => void printed.push(parts.map(String).join(' ')),
    );
  }
  return printed;
}

/** Starts a server that accepts connections and sends nothing, so that a TLS handshake does not complete. */
async function startSilentServer(
  onConnection: () => void,
): Promise<AsyncDisposable & { readonly port: number }> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => {}));
    onConnection();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
