import { createServer, type AddressInfo, type Socket } from 'node:net';
import PostalMime from 'postal-mime';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { EmailContent } from '#core/domain/message/content.ts';
import { causeOfRefusal } from '#core/domain/recipient/suppression-cause.ts';
import { createEgressGuard } from '#core/platform/http/egress-guard.ts';
import { createHttpClient } from '#core/platform/http/http-client.ts';
import { createProviderContexts } from '#providers/context.ts';
import type { HttpSender } from '#providers/provider.ts';
import { secretRouteChanges } from '#providers/secret-route.ts';
import { startStandIn } from '#providers/stand-in.ts';
import { accountSuite } from '#test/suites/provider-conformance.ts';
import type { Account } from './account.ts';
import { ENHANCED_CODES, REPLY_CODES, meaningOfReply } from './outcomes.ts';
import { composeMail } from './mail.ts';
import smtp from './provider.ts';
import { startSmtpStandIn, type SmtpFault, type SmtpStage, type SmtpStandIn } from './stand-in.ts';
import { STAND_IN_CERTIFICATE } from './stand-in-certificate.ts';

const PASSWORD = 'canary-pass-word';
const message = {
  channel: 'email',
  id: '7f3b2a34-1111-4222-8333-444455556666',
  to: 'ada@example.com',
  content: {
    from: { name: 'Zoë "Z" Doe', address: 'zoe@acme.example' },
    replyTo: { address: 'help@acme.example' },
    subject: 'Grüße ✓',
    text: 'Hello\n.\nworld',
    html: '<p>Hello</p>',
    headers: { 'X-Campaign': 'spring' },
    attachments: [{ filename: 'päper.txt', contentType: 'text/plain', content: btoa('file') }],
  },
  expiresAt: Date.now() + 86_400_000,
  attempt: 1,
} as const;

accountSuite({
  provider: smtp,
  account: {
    publicConfig: {
      host: 'mail.acme.example',
      port: 465,
      requireTls: true,
      username: 'mailer',
      replyTo: 'a@acme.example',
    },
    secretConfig: { password: PASSWORD },
  },
  otherSettings: {
    host: 'evil.example',
    port: 587,
    secure: false,
    requireTls: false,
    username: 'root',
    oauthIssuer: 'google',
    oauthTenant: 'acme.example',
    from: 'b@acme.example',
    fromName: 'B',
    replyTo: 'b@acme.example',
    clientName: 'b.example',
    caCertificate: STAND_IN_CERTIFICATE,
  },
  invalidAccounts: [
    { account: { publicConfig: {}, secretConfig: {} }, fields: ['publicConfig.host'] },
    {
      account: {
        publicConfig: {
          host: 'mail.acme.example\r\nRCPT TO:<x>',
          port: 70_000,
          from: 'nobody',
          caCertificate: 'not-a-pem',
        },
        secretConfig: { password: 'with\0nul' },
      },
      fields: [
        'publicConfig.host',
        'publicConfig.port',
        'publicConfig.from',
        'publicConfig.caCertificate',
        'secretConfig.password',
      ],
    },
    {
      account: { publicConfig: { host: 'mail.acme.example', username: 'mailer' }, secretConfig: {} },
      fields: ['secretConfig.password'],
    },
    {
      account: { publicConfig: { host: 'mail.acme.example', oauthIssuer: 'google' }, secretConfig: {} },
      fields: [
        'publicConfig.username',
        'secretConfig.clientId',
        'secretConfig.clientSecret',
        'secretConfig.refreshToken',
      ],
    },
    {
      account: {
        publicConfig: { host: 'mail.acme.example', username: 'mailer', oauthIssuer: 'microsoft' },
        secretConfig: {},
      },
      fields: ['secretConfig.clientId', 'secretConfig.clientSecret', 'publicConfig.oauthTenant'],
    },
    {
      account: { publicConfig: { host: 'mail.acme.example', oauthTenant: 'a/../b' }, secretConfig: {} },
      fields: ['publicConfig.oauthTenant'],
    },
  ],
});

describe('the route of the secret', () => {
  const base = {
    host: 'Mail.acme.example',
    port: 587,
    username: 'mailer',
    caCertificate: STAND_IN_CERTIFICATE,
  };
  const microsoft = { ...base, oauthIssuer: 'microsoft' };
  const authorities = `${STAND_IN_CERTIFICATE}\n${STAND_IN_CERTIFICATE}`;

  test.each<[before: object, change: object, fields: string[]]>([
    [base, { host: 'evil.example' }, ['host']],
    [base, { port: 2525 }, ['port']],
    [base, { port: 465 }, ['port', 'secure']],
    [base, { secure: true }, ['secure']],
    [base, { requireTls: false }, ['requireTls']],
    [base, { username: 'root' }, ['username']],
    [base, { oauthIssuer: 'google' }, ['oauthIssuer']],
    [microsoft, { oauthTenant: 'evil.example' }, ['oauthTenant']],
    [base, { caCertificate: undefined }, ['caCertificate']],
    // A second authority in the same file is trusted too.
    [base, { caCertificate: authorities }, ['caCertificate']],
    [base, { host: 'mail.acme.example.' }, []],
    [base, { secure: false, requireTls: true }, []],
    [base, { oauthTenant: 'unused.example' }, []],
    [base, { caCertificate: STAND_IN_CERTIFICATE.replaceAll('\n', '\r\n') }, []],
    [base, { from: 'a@acme.example', fromName: 'A', replyTo: 'b@acme.example', clientName: 'c' }, []],
  ])('of %j changes with %j, through %j', (before, change, fields) => {
    expect(secretRouteChanges(smtp, before, { ...before, ...change })).toEqual(
      fields.map((field) => `publicConfig.${field}`),
    );
  });

  test('counts as changed if the old settings cannot be parsed', () => {
    expect(secretRouteChanges(smtp, { host: 1 }, base)).toContain('publicConfig.host');
  });
});

const noHttp: HttpSender = () => Promise.reject(new Error('A login with a password makes no HTTP call'));

function contextFor({
  allowCidrs = ['127.0.0.0/8'],
  until = AbortSignal.timeout(10_000),
  http = noHttp,
  tokenOrigin = '',
  addresses = ['127.0.0.1'],
} = {}) {
  const guard = createEgressGuard({ allowCidrs, ports: [587], resolveHost: async () => addresses });
  const contexts = createProviderContexts({
    http,
    resolve: guard.resolve,
    ...(tokenOrigin === '' ? {} : { baseUrls: { smtp: tokenOrigin } }),
  });
  return contexts({
    provider: 'smtp',
    accountId: 'a',
    version: 1,
    until,
  });
}

function accountAt(port: number, over: Partial<Account['config']> = {}): Account {
  return {
    config: {
      host: 'mail.test',
      port,
      username: 'mailer',
      oauthTenant: 'common',
      caCertificate: STAND_IN_CERTIFICATE,
      ...over,
    },
    secrets: { password: PASSWORD },
  };
}

describe('a mail', () => {
  test.each([
    ['starttls', {}],
    ['tls', { secure: true }],
  ] as const)(
    'is sent complete over %s with a login, to a server with a valid certificate',
    async (encryption, over) => {
      await using server = await startSmtpStandIn({ encryption });
      expect(await smtp.send(message, accountAt(server.port, over), contextFor())).toEqual({
        kind: 'accepted',
        providerMessageId: `<${message.id}@acme.example>`,
      });
      const [mail] = server.received;
      expect(mail).toMatchObject({
        envelope: { from: 'zoe@acme.example', to: ['ada@example.com'] },
        user: 'mailer',
        isEncrypted: true,
      });
      const parsed = await PostalMime.parse(mail?.raw ?? '');
      expect(parsed).toMatchObject({
        messageId: `<${message.id}@acme.example>`,
        from: { name: 'Zoë "Z" Doe', address: 'zoe@acme.example' },
        to: [{ address: 'ada@example.com' }],
        replyTo: [{ address: 'help@acme.example' }],
        subject: 'Grüße ✓',
        attachments: [{ filename: 'päper.txt', mimeType: 'text/plain', disposition: 'attachment' }],
      });
      expect(parsed.text?.trim()).toBe('Hello\n.\nworld');
      expect(parsed.html?.trim()).toBe('<p>Hello</p>');
      expect(parsed.headers).toContainEqual(expect.objectContaining({ key: 'x-campaign', value: 'spring' }));
    },
  );

  test('from a non-ASCII domain has an ASCII envelope and headers', async () => {
    await using server = await startSmtpStandIn();
    const domain = 'xn--bcher-kva.example';
    const content = { from: { name: 'Zoe', address: 'zoe@bücher.example' }, subject: 'Hello', text: 'Grüße' };
    const outcome = await smtp.send({ ...message, content }, accountAt(server.port), contextFor());
    const messageId = `<${message.id}@${domain}>`;
    expect(outcome).toEqual({ kind: 'accepted', providerMessageId: messageId });
    const [mail] = server.received;
    // The stand-in shows decoded domains.
    const { envelope } = await composeMail({ ...message, content }, accountAt(server.port).config);
    expect(envelope).toEqual({ from: `zoe@${domain}`, to: [message.to] });
    const [headers = ''] = (mail?.raw ?? '').split('\r\n\r\n');
    expect(headers).toMatch(/^[\x20-\x7e\r\n\t]+$/);
    expect(headers).toContain(messageId);
  });

  test('is sent without TLS and login if the account has neither', async () => {
    await using server = await startSmtpStandIn({ encryption: 'none' });
    const account = { config: { host: '127.0.0.1', port: server.port, oauthTenant: 'common' }, secrets: {} };
    expect(await smtp.send(message, account, contextFor())).toMatchObject({ kind: 'accepted' });
    expect(server.received[0]).toMatchObject({ user: null, isEncrypted: false });
  });

  test('and its login are never sent unencrypted if the server offers no STARTTLS', async () => {
    await using server = await startSmtpStandIn({ encryption: 'none' });
    expect(await smtp.send(message, accountAt(server.port), contextFor())).toMatchObject({
      kind: 'rejected_transient',
      failure: { class: 'auth_or_config', code: 'encryption_unavailable' },
    });
    expect(server.received).toHaveLength(0);
  });

  test('is not sent to a server with an untrusted or mismatching certificate', async () => {
    await using server = await startSmtpStandIn();
    const { caCertificate: _, ...config } = accountAt(server.port).config;
    expect(await smtp.send(message, { config, secrets: { password: PASSWORD } }, contextFor())).toMatchObject(
      {
        kind: 'rejected_transient',
        failure: { class: 'auth_or_config', code: 'certificate_invalid' },
      },
    );
    const other = accountAt(server.port, { host: 'other.test' });
    expect(await smtp.send(message, other, contextFor())).toMatchObject({
      failure: { code: 'certificate_invalid' },
    });
    expect(server.received).toHaveLength(0);
  });

  test('is not sent to an internal address, however it is written', async () => {
    await using server = await startSmtpStandIn();
    for (const host of ['mail.test', '127.0.0.1', '0x7f.1', '[::1]']) {
      const outcome = await smtp.send(
        message,
        accountAt(server.port, { host }),
        contextFor({ allowCidrs: [] }),
      );
      expect(outcome).toMatchObject({
        kind: 'rejected_transient',
        failure: { class: 'auth_or_config', code: 'egress_blocked' },
      });
    }
    expect(server.received).toHaveLength(0);
  });

  test('cannot make the worker read a local file as an attachment', async () => {
    await using server = await startSmtpStandIn();
    const attachments = [{ filename: 'x', contentType: 'text/plain', content: '', path: '/etc/hostname' }];
    const content = { ...message.content, attachments };
    expect(await smtp.send({ ...message, content }, accountAt(server.port), contextFor())).toMatchObject({
      kind: 'accepted',
    });
    const parsed = await PostalMime.parse(server.received[0]?.raw ?? '');
    expect(parsed.attachments[0]?.content).toMatchObject({ byteLength: 0 });
  });

  const long = 'a'.repeat(5_000);
  test.each<[what: string, over: Partial<EmailContent>]>([
    ['an HTML part', { html: `<p>${long}</p>` }],
    ['a text part', { text: 'é'.repeat(5_000) }],
    ['a subject', { subject: 'a'.repeat(998) }],
    ['a header', { headers: { 'X-Link': 'a'.repeat(998) } }],
    ['a reference', { headers: { 'In-Reply-To': `<${'a'.repeat(996)}>` } }],
    [
      'an attachment',
      { attachments: [{ filename: 'a.txt', contentType: 'text/plain', content: btoa(long) }] },
    ],
    ['a mail', { attachments: [{ filename: 'a.eml', contentType: 'message/rfc822', content: btoa(long) }] }],
  ])('with %s without line breaks has no line above 998 octets', async (_, over) => {
    await using server = await startSmtpStandIn();
    const mail = { ...message, content: { ...message.content, ...over } };
    expect(await smtp.send(mail, accountAt(server.port), contextFor())).toMatchObject({ kind: 'accepted' });
    const raw = server.received[0]?.raw ?? '';
    expect(Math.max(...raw.split('\r\n').map((line) => Buffer.byteLength(line)))).toBeLessThanOrEqual(998);
    const parsed = await PostalMime.parse(raw);
    expect(parsed.subject).toBe(mail.content.subject);
    expect(parsed.text?.trim()).toBe(mail.content.text);
    expect(parsed.html?.trim()).toBe(mail.content.html);
    expect(parsed.attachments.map(({ content }) => Buffer.from(content as ArrayBuffer).toString())).toEqual(
      mail.content.attachments.map(({ content }) => atob(content)),
    );
  });

  test('forwarded with short lines is attached as a mail', async () => {
    await using server = await startSmtpStandIn();
    const text = 'Subject: a\r\n\r\nb\r\n';
    const attachments = [{ filename: 'a.eml', contentType: 'message/rfc822', content: btoa(text) }];
    const mail = { ...message, content: { ...message.content, attachments } };
    await smtp.send(mail, accountAt(server.port), contextFor());
    expect(server.received[0]?.raw).toContain('Content-Type: message/rfc822');
    expect(server.received[0]?.raw).toContain(text);
  });

  test.each([
    ['Subject: a\r\n\r\nGrüße\r\n', true],
    ['Subject: a\r\n\r\nb\r\n', false],
  ])('forwarded as %j is announced as 8-bit: %s', async (text, isAnnounced8Bit) => {
    await using server = await startSmtpStandIn();
    const bytes = Buffer.from(text).toString('base64');
    const attachments = [{ filename: 'a.eml', contentType: 'message/rfc822', content: bytes }];
    await smtp.send(
      { ...message, content: { ...message.content, attachments } },
      accountAt(server.port),
      contextFor(),
    );
    expect(server.received).toMatchObject([
      { raw: expect.stringContaining(text) as string, isAnnounced8Bit },
    ]);
  });

  test('has no headers injected by its subject or names', async () => {
    await using server = await startSmtpStandIn();
    const content = {
      from: { name: 'a\r\nBcc: b@x.example', address: 'a@x.example' },
      subject: 'a\r\nBcc: b@x.example',
      text: '',
    };
    await smtp.send({ ...message, content }, accountAt(server.port), contextFor());
    expect(server.received[0]?.raw).not.toMatch(/^bcc:/im);
    expect(server.received[0]?.envelope.to).toEqual([message.to]);
  });
});

describe('a mailbox with OAuth', () => {
  const REFRESH = 'canary-refresh-token';

  async function setup(oauthIssuer: 'google' | 'microsoft', grant: object = { refreshToken: REFRESH }) {
    const stack = new AsyncDisposableStack();
    const http = stack.use(createHttpClient({ totalDeadlineMs: 10_000 }));
    const server = stack.use(await startSmtpStandIn());
    let issued = 0;
    const issuer = stack.use(
      await startStandIn(() => ({
        status: 200,
        body: { access_token: `token-${(issued += 1)}`, expires_in: 3_600 },
      })),
    );
    const context = contextFor({ http, tokenOrigin: issuer.origin });
    const { config } = accountAt(server.port, { oauthIssuer, oauthTenant: 'acme.example' });
    const account = {
      config,
      secrets: { clientId: 'client', clientSecret: 'canary-client', ...grant },
    };
    return {
      server,
      issuer,
      send: () => smtp.send(message, account, context),
      verify: () => smtp.verify(account, context),
      [Symbol.asyncDispose]: () => stack.disposeAsync(),
    };
  }

  test.each([
    ['google', '/token', null],
    ['microsoft', '/acme.example/oauth2/v2.0/token', 'https://outlook.office.com/SMTP.Send offline_access'],
  ] as const)('at %s logs in with a token that is requested once', async (oauthIssuer, path, scope) => {
    await using it = await setup(oauthIssuer);
    expect(await it.send()).toMatchObject({ kind: 'accepted' });
    expect(await it.send()).toMatchObject({ kind: 'accepted' });
    expect(it.server.received.map(({ user }) => user)).toEqual(['mailer', 'mailer']);
    expect(it.issuer.received.map((one) => one.path)).toEqual([path]);
    const form = new URLSearchParams(it.issuer.received[0]?.body);
    expect(form.get('grant_type')).toBe('refresh_token');
    expect(form.get('refresh_token')).toBe(REFRESH);
    expect(form.get('scope')).toBe(scope);
  });

  test('at microsoft without a refresh token logs in as the application', async () => {
    await using it = await setup('microsoft', {});
    expect(await it.send()).toMatchObject({ kind: 'accepted' });
    expect(await it.verify()).toEqual({ kind: 'valid' });
    expect(it.server.received.map(({ user }) => user)).toEqual(['mailer']);
    const { path, body } = it.issuer.received[0] ?? {};
    expect(path).toBe('/acme.example/oauth2/v2.0/token');
    expect(Object.fromEntries(new URLSearchParams(body))).toEqual({
      grant_type: 'client_credentials',
      client_id: 'client',
      client_secret: 'canary-client',
      scope: 'https://outlook.office365.com/.default',
    });
  });

  test.each<[over: object, secrets: object, fields: string[]]>([
    [{ oauthIssuer: 'microsoft', oauthTenant: 'acme.example' }, {}, []],
    [{ oauthIssuer: 'microsoft' }, {}, ['publicConfig.oauthTenant']],
    [{ oauthIssuer: 'microsoft', oauthTenant: 'Organizations' }, {}, ['publicConfig.oauthTenant']],
    [{ oauthIssuer: 'microsoft' }, { refreshToken: REFRESH }, []],
    [{ oauthIssuer: 'google' }, {}, ['secretConfig.refreshToken']],
  ])('with %j and %j requires %j', (over, grant, fields) => {
    const { config } = accountAt(587, over);
    const secrets = { clientId: 'client', clientSecret: 'canary-client', ...grant };
    expect(smtp.check?.({ config, secrets }).map(({ field }) => field)).toEqual(fields);
  });

  test('requests a new token after a refusal, and shows no token', async () => {
    await using it = await setup('google');
    it.server.fail('auth', { kind: 'reply', code: 535, text: `5.7.8 token-1 ${REFRESH} refused` });
    const outcome = await it.send();
    expect(outcome).toMatchObject({ kind: 'rejected_transient', failure: { class: 'auth_or_config' } });
    expect(JSON.stringify(outcome)).not.toMatch(/token-1|canary/);
    expect(await it.send()).toMatchObject({ kind: 'accepted' });
    expect(it.issuer.received).toHaveLength(2);
  });

  test('with a revoked grant is invalid, and a send fails as auth_or_config', async () => {
    await using it = await setup('google');
    const gone = {
      kind: 'reply',
      status: 400,
      body: { error: 'invalid_grant', error_description: REFRESH },
    } as const;
    it.issuer.fail(gone);
    it.issuer.fail(gone);
    const outcome = await it.send();
    expect(outcome).toMatchObject({ kind: 'rejected_transient', failure: { class: 'auth_or_config' } });
    expect(JSON.stringify(outcome)).not.toContain(REFRESH);
    expect(await it.verify()).toMatchObject({ kind: 'invalid' });
    expect(await it.verify()).toEqual({ kind: 'valid' });
    expect(it.server.received).toHaveLength(0);
  });

  test.each([
    ['interaction_required', 'auth_or_config'],
    ['consent_required', 'auth_or_config'],
    ['login_required', 'auth_or_config'],
    ['admin_policy_enforced', 'auth_or_config'],
    ['org_internal', 'auth_or_config'],
    ['temporarily_unavailable', 'provider_unavailable'],
    ['server_error', 'provider_unavailable'],
  ])('with the refusal %s fails as %s', async (error, group) => {
    await using it = await setup('google');
    it.issuer.fail({ kind: 'reply', status: 400, body: { error } });
    expect(await it.send()).toMatchObject({ kind: 'rejected_transient', failure: { class: group } });
  });

  test('with an unreachable issuer is unknown, and a send fails transiently', async () => {
    await using it = await setup('google');
    it.issuer.fail({ kind: 'reset' });
    it.issuer.fail({ kind: 'reset' });
    expect(await it.send()).toMatchObject({
      kind: 'rejected_transient',
      failure: { class: 'provider_unavailable' },
    });
    expect(await it.verify()).toMatchObject({ kind: 'unknown' });
  });
});

/** Starts a server that gives `reply` to STARTTLS, and closes the connection as soon as the client begins the handshake. */
async function startUpgradeServer(reply: string) {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => {}));
    socket.write('220 mail.test ESMTP\r\n');
    socket.on('data', (chunk) => {
      const command = chunk.toString('latin1');
      if (command.startsWith('EHLO')) socket.write('250-mail.test\r\n250 STARTTLS\r\n');
      else if (command.startsWith('STARTTLS')) socket.write(`${reply}\r\n`);
      else socket.end();
    });
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

/** Starts a server that greets with this text. */
async function startReplyServer(reply: string) {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => {}));
    socket.write(reply);
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

/** Starts a server that reads this much of the content, and then neither reads nor answers. */
async function startReadingServer(bytesMax: number, onReached: () => void) {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => {}));
    socket.write('220 mail.test ESMTP\r\n');
    let contentBytes: number | undefined;
    socket.on('data', (chunk) => {
      if (contentBytes === undefined) {
        const isData = chunk.toString('latin1').startsWith('DATA');
        contentBytes = isData ? 0 : undefined;
        return void socket.write(isData ? '354 Go ahead\r\n' : '250 OK\r\n');
      }
      contentBytes += chunk.length;
      const isWhole = chunk.subarray(-5).toString('latin1') === '\r\n.\r\n';
      if (contentBytes < bytesMax && !isWhole) return;
      socket.pause();
      setImmediate(onReached);
    });
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

describe('a failed session', () => {
  let server: SmtpStandIn;
  beforeEach(async () => {
    server = await startSmtpStandIn();
  });
  afterEach(() => server[Symbol.asyncDispose]());
  const send = (until?: AbortSignal) => smtp.send(message, accountAt(server.port), contextFor({ until }));

  test.each<[SmtpStage, number, string, string, string, string]>([
    ['greeting', 554, 'No service', 'rejected_transient', 'provider_unavailable', 'greeting_refused'],
    ['greeting', 421, 'Try later', 'rejected_transient', 'provider_unavailable', 'service_closing'],
    ['auth', 535, '5.7.8 Bad credentials', 'rejected_transient', 'auth_or_config', 'authentication_failed'],
    ['auth', 432, '4.7.12 New password', 'rejected_transient', 'auth_or_config', 'authentication_failed'],
    // Exchange Online, when a mailbox has more than three sessions.
    ['auth', 432, '4.3.2 Too many sessions', 'rejected_transient', 'provider_throttled', 'rate_limited'],
    ['sender', 432, '4.3.2 Too many sessions', 'rejected_transient', 'provider_throttled', 'rate_limited'],
    ['content', 432, '4.3.2 Too many sessions', 'rejected_transient', 'provider_throttled', 'rate_limited'],
    ['auth', 454, '4.7.0 Temporary', 'rejected_transient', 'provider_throttled', 'rate_limited'],
    [
      'sender',
      530,
      '5.7.0 Authentication required',
      'rejected_transient',
      'auth_or_config',
      'authentication_required',
    ],
    ['sender', 550, '5.1.8 Bad sender', 'rejected_permanent', 'sender_rejected', 'invalid_sender'],
    ['sender', 550, '5.1.0 Address rejected', 'rejected_permanent', 'sender_rejected', 'invalid_sender'],
    ['sender', 550, '5.1.1 No such sender', 'rejected_permanent', 'sender_rejected', 'invalid_sender'],
    ['sender', 553, '5.1.3 Bad syntax', 'rejected_permanent', 'sender_rejected', 'invalid_sender'],
    ['sender', 450, '4.1.8 No such domain', 'rejected_transient', 'provider_unavailable', 'sender_deferred'],
    ['sender', 552, 'Message is too big', 'rejected_permanent', 'content_rejected', 'payload_too_large'],
    ['sender', 553, 'Sender refused', 'rejected_permanent', 'sender_rejected', 'sender_refused'],
    ['sender', 451, '4.3.0 Local error', 'rejected_transient', 'provider_unavailable', 'provider_error'],
    ['recipient', 550, '5.1.1 User unknown', 'rejected_permanent', 'invalid_recipient', 'unknown_recipient'],
    // Postfix answers RCPT TO with what it holds against MAIL FROM.
    [
      'recipient',
      550,
      '5.1.0 Sender address rejected',
      'rejected_permanent',
      'sender_rejected',
      'sender_refused',
    ],
    [
      'recipient',
      553,
      '5.7.1 <a@acme.example>: Sender address rejected: not owned by user mailer',
      'rejected_permanent',
      'sender_rejected',
      'sender_refused',
    ],
    [
      'recipient',
      550,
      '5.1.8 <a@acme.example>: Sender address rejected: Domain not found',
      'rejected_permanent',
      'sender_rejected',
      'invalid_sender',
    ],
    [
      'recipient',
      450,
      '4.1.8 <a@acme.example>: Sender address rejected: Domain not found',
      'rejected_transient',
      'recipient_unavailable',
      'recipient_deferred',
    ],
    ['recipient', 553, '5.1.3 Bad syntax', 'rejected_permanent', 'invalid_recipient', 'invalid_address'],
    ['recipient', 450, '4.1.1 Unknown', 'rejected_transient', 'recipient_unavailable', 'recipient_deferred'],
    ['recipient', 550, 'No such user', 'rejected_permanent', 'invalid_recipient', 'recipient_refused'],
    [
      'recipient',
      554,
      '5.7.1 <a@b.example>: Relay access denied',
      'rejected_permanent',
      'sender_rejected',
      'relay_denied',
    ],
    ...(['sender', 'recipient', 'content'] as const).flatMap((stage) =>
      ['Daily SMTP relay limit exceeded for customer.', 'Email quota exceeded.'].map(
        (text): [SmtpStage, number, string, string, string, string] => [
          stage,
          550,
          `5.7.1 ${text}`,
          'rejected_transient',
          'provider_throttled',
          'daily_cap_reached',
        ],
      ),
    ),
    [
      'recipient',
      552,
      '5.2.2 Email quota exceeded',
      'rejected_permanent',
      'recipient_unavailable',
      'mailbox_full',
    ],
    ['recipient', 550, '5.7.1 Unable to relay', 'rejected_permanent', 'sender_rejected', 'relay_denied'],
    ['recipient', 550, 'relay not permitted', 'rejected_permanent', 'sender_rejected', 'relay_denied'],
    ['recipient', 552, '5.2.2 Over quota', 'rejected_permanent', 'recipient_unavailable', 'mailbox_full'],
    [
      'recipient',
      450,
      '4.7.1 Greylisted',
      'rejected_transient',
      'recipient_unavailable',
      'recipient_deferred',
    ],
    ['content', 550, '5.1.0 Sender denied', 'rejected_permanent', 'content_rejected', 'content_refused'],
    ['content', 550, '5.1.10 Unknown', 'rejected_permanent', 'invalid_recipient', 'unknown_domain'],
    ['content', 552, '5.3.4 Too big', 'rejected_permanent', 'content_rejected', 'payload_too_large'],
    ['content', 554, '5.7.1 Looks like spam', 'rejected_permanent', 'content_rejected', 'rejected_by_policy'],
    [
      'content',
      550,
      '5.7.26 Unauthenticated email is not accepted due to the domain policy',
      'rejected_permanent',
      'sender_rejected',
      'sender_unauthenticated',
    ],
    ['sender', 550, '5.7.27 Sender has a null MX', 'rejected_permanent', 'sender_rejected', 'invalid_sender'],
    ['content', 554, '4.7.1 Contradiction', 'rejected_permanent', 'content_rejected', 'content_refused'],
    ['content', 452, 'Disk full', 'rejected_transient', 'provider_unavailable', 'insufficient_storage'],
    ['content', 421, '4.3.2 Shutting down', 'rejected_transient', 'provider_unavailable', 'service_closing'],
    ['sender', 550, '5.4.5 Daily limit', 'rejected_transient', 'provider_throttled', 'daily_cap_reached'],
    ['sender', 550, '5.1.90 Daily limit', 'rejected_transient', 'provider_throttled', 'daily_cap_reached'],
    ['recipient', 550, '5.1.90 Daily limit', 'rejected_transient', 'provider_throttled', 'daily_cap_reached'],
    [
      'content',
      550,
      '5.4.5 Daily user sending limit exceeded',
      'rejected_transient',
      'provider_throttled',
      'daily_cap_reached',
    ],
    [
      'content',
      554,
      '5.2.0 STOREDRV.Submission.Exception:SubmissionQuotaExceededException; Failed to process message',
      'rejected_transient',
      'provider_throttled',
      'daily_cap_reached',
    ],
    [
      'content',
      554,
      '5.2.2 mailbox full; STOREDRV.Submission.Exception:QuotaExceededException.MapiExceptionShutoffQuotaExceeded',
      'rejected_transient',
      'provider_throttled',
      'daily_cap_reached',
    ],
    [
      'content',
      554,
      '5.2.0 STOREDRV.Submission.Exception:OutboundSpamException; UserAction verdict is not None. Actual verdict is RefuseQuota.',
      'rejected_transient',
      'provider_throttled',
      'daily_cap_reached',
    ],
    [
      'content',
      554,
      '5.2.0 STOREDRV.Submission.Exception:OutboundSpamException; Actual verdict is Suspend, ShowTierUpgrade.',
      'rejected_transient',
      'auth_or_config',
      'account_suspended',
    ],
    [
      'content',
      550,
      '5.7.1 You have exceeded your sending quota',
      'rejected_transient',
      'provider_throttled',
      'daily_cap_reached',
    ],
    ...['paused', 'suspended'].map((state): [SmtpStage, number, string, string, string, string] => [
      'content',
      554,
      `Message rejected: Sending ${state} for this account. For more information, please check your inbox.`,
      'rejected_transient',
      'auth_or_config',
      'account_suspended',
    ]),
    // The account may send, but not with this sender.
    ...[
      '5.2.0 STOREDRV.Submission.Exception:SendAsDeniedException.MapiExceptionSendAsDenied',
      '5.7.60 SMTP; Client does not have permissions to send as this sender',
    ].map((text): [SmtpStage, number, string, string, string, string] => [
      'content',
      554,
      text,
      'rejected_permanent',
      'sender_rejected',
      'sender_refused',
    ]),
    ...[
      'Message rejected: Email address is not verified. The following identities failed the check in region EU-WEST-1',
      'The from address does not match a verified Sender Identity. Mail cannot be sent until this error is resolved.',
    ].map((text): [SmtpStage, number, string, string, string, string] => [
      'content',
      554,
      text,
      'rejected_permanent',
      'sender_rejected',
      'sender_unverified',
    ]),
    // What the vendors' mail servers answer about the account, with the codes of a refused mail or of a fault of their own.
    [
      'content',
      554,
      "Access denied: User `arn:aws:iam::1:user/u' is not authorized to perform `ses:SendRawEmail' on resource `r'",
      'rejected_transient',
      'auth_or_config',
      'forbidden',
    ],
    [
      'sender',
      502,
      '5.7.0 Your SMTP account is not yet activated. Please contact us to request activation',
      'rejected_transient',
      'auth_or_config',
      'account_pending',
    ],
    [
      'content',
      421,
      'Domain acme.example is not allowed to send: Please activate your Mailgun account.',
      'rejected_transient',
      'auth_or_config',
      'account_pending',
    ],
    [
      'content',
      421,
      'Domain acme.example is not allowed to send: Account disabled',
      'rejected_transient',
      'auth_or_config',
      'account_suspended',
    ],
    [
      'content',
      421,
      'Domain acme.example is not allowed to send: Sandbox subdomains are for test purposes only.',
      'rejected_permanent',
      'sender_rejected',
      'trial_restriction',
    ],
    [
      'sender',
      502,
      '5.7.0 Please authenticate first',
      'rejected_transient',
      'auth_or_config',
      'authentication_required',
    ],
    [
      'content',
      454,
      'Throttling failure: Daily message quota exceeded.',
      'rejected_transient',
      'provider_throttled',
      'daily_cap_reached',
    ],
    ...(
      [
        [454, 'Throttling failure: Maximum sending rate exceeded.'],
        [
          421,
          'Domain acme.example is not allowed to send: recipient limit exceeded, try again after Sun, 05 Oct',
        ],
        [
          554,
          'Your account is on probation and domains are limited to 100 messages / hour. Account will be enabled',
        ],
      ] as const
    ).map(([code, text]): [SmtpStage, number, string, string, string, string] => [
      'content',
      code,
      text,
      'rejected_transient',
      'provider_throttled',
      'rate_limited',
    ]),
    ['content', 552, '5.2.2 Over quota', 'rejected_permanent', 'recipient_unavailable', 'mailbox_full'],
  ])('at %s with %i %s is %s, %s, %s', async (stage, code, text, kind, failureClass, reason) => {
    server.fail(stage, { kind: 'reply', code, text });
    expect(await send()).toMatchObject({
      kind,
      failure: {
        class: failureClass,
        code: reason,
        providerCode: expect.stringContaining(String(code)) as string,
      },
    });
    expect(server.received).toHaveLength(0);
  });

  test.each<[SmtpStage, SmtpFault['kind'], string]>([
    ['greeting', 'hang', 'rejected_transient'],
    ['greeting', 'reset', 'rejected_transient'],
    ['auth', 'hang', 'rejected_transient'],
    ['sender', 'reset', 'rejected_transient'],
    ['recipient', 'hang', 'rejected_transient'],
    ['recipient', 'reset', 'rejected_transient'],
    ['content', 'hang', 'ambiguous'],
    ['content', 'reset', 'ambiguous'],
  ])('at %s by a %s is %s', async (stage, kind, outcome) => {
    const deadline = new AbortController();
    server.fail(stage, { kind, onReached: () => deadline.abort() } as SmtpFault);
    expect(await send(deadline.signal)).toMatchObject({
      kind: outcome,
      failure: { class: 'provider_unavailable' },
    });
  });

  test.each([
    ['after a part of the content', 4_096, 'rejected_transient'],
    ['after the content', Number.POSITIVE_INFINITY, 'ambiguous'],
  ])('is certain only before the end of the content: %s', async (_, readBytes, kind) => {
    const deadline = new AbortController();
    await using slow = await startReadingServer(readBytes, () => deadline.abort());
    const attachments = [
      {
        filename: 'a.bin',
        contentType: 'application/octet-stream',
        content: Buffer.alloc(9_000_000).toString('base64'),
      },
    ];
    const account = { config: { host: '127.0.0.1', port: slow.port, oauthTenant: 'common' }, secrets: {} };
    const mail = { ...message, content: { ...message.content, attachments } };
    expect(await smtp.send(mail, account, contextFor({ until: deadline.signal }))).toMatchObject({ kind });
  });

  test('is rejected permanently if the mail exceeds the announced size', async () => {
    await using small = await startSmtpStandIn({ bytesMax: 100 });
    const outcome = await smtp.send(message, accountAt(small.port), contextFor());
    expect(outcome).toEqual({
      kind: 'rejected_permanent',
      failure: {
        class: 'content_rejected',
        code: 'payload_too_large',
        providerMessage: 'The mail is larger than the server allows',
      },
    });
    expect(small.received).toHaveLength(0);
  });

  test('is transient if the connection is refused', async () => {
    const { port } = server;
    await server[Symbol.asyncDispose]();
    const outcome = await smtp.send(message, accountAt(port), contextFor());
    server = await startSmtpStandIn();
    expect(outcome).toMatchObject({ kind: 'rejected_transient', failure: { code: 'connect_refused' } });
  });

  test('does not end the send while another address of the host takes the mail', async () => {
    const context = contextFor({ addresses: ['127.0.0.3', '127.0.0.2', '127.0.0.1'] });
    expect(await smtp.send(message, accountAt(server.port), context)).toMatchObject({ kind: 'accepted' });
    expect(server.received).toHaveLength(1);
    expect(await smtp.verify(accountAt(server.port), context)).toEqual({ kind: 'valid' });
  });

  test('is that of the first address if no address takes the mail', async () => {
    const context = contextFor({ addresses: ['127.0.0.2', '127.0.0.1'] });
    server.fail('greeting', { kind: 'reset' });
    expect(await smtp.send(message, accountAt(server.port), context)).toMatchObject({
      kind: 'rejected_transient',
      failure: { code: 'connect_refused' },
    });
  });

  test('in the account ends the send, whatever another address would answer', async () => {
    await using other = await startUpgradeServer('502 5.5.1 Not implemented');
    let connections = 0;
    const second = createServer((socket) => {
      connections += 1;
      socket.destroy();
    });
    await new Promise<void>((resolve) => second.listen(other.port, '127.0.0.2', resolve));
    const context = contextFor({ addresses: ['127.0.0.1', '127.0.0.2'] });
    expect(await smtp.send(message, accountAt(other.port), context)).toMatchObject({
      failure: { class: 'auth_or_config', code: 'encryption_unavailable' },
    });
    expect(connections).toBe(0);
    await new Promise((resolve) => second.close(resolve));
  });

  test('shows no password, recipient or control characters that the reply repeats', async () => {
    const text = `5.7.8 ${PASSWORD} ${btoa(`\0mailer\0${PASSWORD}`)} \u0007 ${message.to}`;
    server.fail('auth', { kind: 'reply', code: 535, text });
    const outcome = await send();
    for (const hidden of [PASSWORD, btoa(`\0mailer\0${PASSWORD}`), message.to]) {
      expect(JSON.stringify(outcome)).not.toContain(hidden);
    }
    expect((outcome as { failure: { providerMessage?: string } }).failure.providerMessage).toMatch(
      /^[^\p{Cc}]+$/u,
    );
  });

  test.each([
    ['of many lines', '220-x\r\n'.repeat(20_000)],
    ['of one line', `220 ${'x'.repeat(100_000)}`],
    ['of blank lines', '\r\n'.repeat(50_000)],
  ])('ends with reply_too_long on an overlong reply %s', async (_, reply) => {
    await using flood = await startReplyServer(reply);
    expect(await smtp.send(message, accountAt(flood.port), contextFor())).toMatchObject({
      kind: 'rejected_transient',
      failure: {
        class: 'provider_unavailable',
        code: 'reply_too_long',
        providerMessage: 'The server sent more than a mail server answers',
      },
    });
  });

  test('ends with protocol_error on a greeting of another protocol', async () => {
    await using other = await startReplyServer('SSH-2.0-OpenSSH_9.9\r\n');
    expect(await smtp.send(message, accountAt(other.port), contextFor())).toMatchObject({
      kind: 'rejected_transient',
      failure: { class: 'provider_unavailable', code: 'protocol_error' },
    });
  });

  test('is ambiguous if the answer to the content is too long', async () => {
    server.fail('content', { kind: 'reply', code: 250, text: 'x'.repeat(100_000) });
    expect(await send()).toMatchObject({ kind: 'ambiguous', failure: { code: 'reply_too_long' } });
  });

  test.each<[reply: string, failureClass: string, code: string]>([
    ['454 4.7.0 TLS not available due to local problem', 'provider_unavailable', 'temporarily_unavailable'],
    ['454 4.7.0 No certificate at present', 'provider_unavailable', 'temporarily_unavailable'],
    ['421 4.3.2 Shutting down', 'provider_unavailable', 'temporarily_unavailable'],
    ['502 5.5.1 Not implemented', 'auth_or_config', 'encryption_unavailable'],
    ['220 2.0.0 Ready', 'provider_unavailable', 'connection_reset'],
  ])('after STARTTLS with %s is %s, %s', async (reply, failureClass, code) => {
    await using upgrade = await startUpgradeServer(reply);
    const account = accountAt(upgrade.port);
    const failure = { class: failureClass, code };
    expect(await smtp.send(message, account, contextFor())).toMatchObject({
      kind: 'rejected_transient',
      failure,
    });
    expect(await smtp.verify(account, contextFor())).toMatchObject({
      kind: failureClass === 'auth_or_config' ? 'invalid' : 'unknown',
      failure,
    });
  });

  test('of a credential check is invalid for a wrong login, unknown for a timeout', async () => {
    const account = accountAt(server.port);
    expect(await smtp.verify(account, contextFor())).toEqual({ kind: 'valid' });
    server.fail('auth', { kind: 'reply', code: 535, text: '5.7.8 Bad credentials' });
    expect(await smtp.verify(account, contextFor())).toMatchObject({
      kind: 'invalid',
      failure: { class: 'auth_or_config' },
    });
    const deadline = new AbortController();
    server.fail('greeting', { kind: 'hang', onReached: () => deadline.abort() });
    expect(await smtp.verify(account, contextFor({ until: deadline.signal }))).toMatchObject({
      kind: 'unknown',
    });
    expect(await smtp.verify(account, contextFor({ allowCidrs: [] }))).toMatchObject({ kind: 'invalid' });
    expect(server.received).toHaveLength(0);
  });
});

describe('a non-ASCII mailbox', () => {
  const recipient = { ...message, to: 'dån@example.com' };
  const sender = { ...message, content: { ...message.content, from: { address: 'zoë@acme.example' } } };

  test('is sent to a server that offers SMTPUTF8', async () => {
    await using server = await startSmtpStandIn();
    expect(await smtp.send(recipient, accountAt(server.port), contextFor())).toMatchObject({
      kind: 'accepted',
    });
    expect(server.received[0]?.envelope.to).toEqual([recipient.to]);
  });

  test.each([
    ['recipient', recipient, 'invalid_recipient', 'unsupported_address'],
    ['sender', sender, 'sender_rejected', 'invalid_sender'],
  ] as const)(
    'of the %s is not sent to a server without SMTPUTF8, and suppresses nobody',
    async (_, mail, group, code) => {
      await using server = await startSmtpStandIn({ takesUtf8: false });
      const outcome = await smtp.send(mail, accountAt(server.port), contextFor());
      expect(outcome).toEqual({ kind: 'rejected_permanent', failure: { class: group, code } });
      expect(causeOfRefusal(outcome)).toBeNull();
      expect(server.received).toHaveLength(0);
    },
  );

  test.each<[SmtpStage, string, string, string]>([
    ['recipient', '5.1.3 Bad address syntax', 'invalid_recipient', 'unsupported_address'],
    ['recipient', '5.6.7 Address needs SMTPUTF8', 'invalid_recipient', 'unsupported_address'],
    ['sender', '5.6.7 Address needs SMTPUTF8', 'sender_rejected', 'invalid_sender'],
    ['content', '5.1.3 Bad address syntax', 'invalid_recipient', 'unsupported_address'],
  ])(
    'that a server with SMTPUTF8 refuses at %s with %s suppresses nobody',
    async (stage, text, group, code) => {
      await using server = await startSmtpStandIn();
      server.fail(stage, { kind: 'reply', code: 553, text });
      const outcome = await smtp.send(recipient, accountAt(server.port), contextFor());
      expect(outcome).toMatchObject({ kind: 'rejected_permanent', failure: { class: group, code } });
      expect(causeOfRefusal(outcome)).toBeNull();
    },
  );

  test('that does not exist at a server with SMTPUTF8 is unknown like any other', async () => {
    await using server = await startSmtpStandIn({ isUnknown: () => true });
    expect(await smtp.send(recipient, accountAt(server.port), contextFor())).toMatchObject({
      failure: { class: 'invalid_recipient', code: 'unknown_recipient' },
    });
  });
});

test.each([
  [{ to: '"a<b"@example.com' }, 'invalid_recipient', 'unsupported_address'],
  [
    { content: { ...message.content, from: { address: '"a<b"@acme.example' } } },
    'sender_rejected',
    'invalid_sender',
  ],
])(
  'an address that cannot be used in an SMTP command is rejected permanently: %j',
  async (part, group, code) => {
    await using server = await startSmtpStandIn();
    expect(await smtp.send({ ...message, ...part }, accountAt(server.port), contextFor())).toMatchObject({
      kind: 'rejected_permanent',
      failure: { class: group, code },
    });
  },
);

test.each([...Object.keys(REPLY_CODES), '550', '551', '553', '554', '450'])(
  'reply %s is retried if it starts with 4 or is about the account',
  (code) => {
    const meaning = meaningOfReply('content', Number(code), undefined);
    expect(meaning.retry).toBe(code.startsWith('4') || meaning.class === 'auth_or_config');
  },
);

test.each(Object.entries(ENHANCED_CODES))(
  'enhanced code %s is retried if it starts with 4 or is about the account',
  (code, meaning) => {
    const isAccount = meaning.class === 'auth_or_config' || meaning.class === 'provider_throttled';
    expect(meaning.retry).toBe(code.startsWith('4') || isAccount);
  },
);
