import { describe, expect, test } from 'vitest';
import type { Channel } from '#core/domain/message/channel.ts';
import { createEgressGuard } from '#core/platform/http/egress-guard.ts';
import { createHttpClient } from '#core/platform/http/http-client.ts';
import { createProviderContexts } from '#providers/context.ts';
import type { AnyProvider, HttpRequest } from '#providers/provider.ts';
import { parseAccount } from '#providers/registry.ts';
import { PROVIDERS, type ProviderKind } from '#providers/registry.gen.ts';
import { CATALOG_ACCOUNTS } from '#test/support/catalog-accounts.ts';
import { startDnsServer } from './dns-server.ts';
import { HOSTILE_SETTINGS, isOurs } from './hostile-settings.ts';
import { createHostResolver } from '#core/platform/http/host-resolver.ts';

const CONTENT: Readonly<Record<Channel, object>> = {
  sms: { to: '+15551230001', content: { body: 'Hello' } },
  whatsapp: { to: '+15551230001', content: { kind: 'text', body: 'Hello' } },
  push: { to: 'ab'.repeat(32), content: { title: 'Hello', body: 'Hello' } },
  email: {
    to: 'ada@example.com',
    content: { from: { address: 'zoe@acme.example' }, subject: 'Hello', text: 'Hello' },
  },
};
const messageTo = (channel: Channel): object => ({
  channel,
  id: '7f3b2a34-1111-4222-8333-444455556666',
  ...CONTENT[channel],
  expiresAt: Date.now() + 86_400_000,
  attempt: 1,
});

type Call = Pick<HttpRequest, 'url' | 'isTenantHost'>;

/** Sends and checks through an account. @returns the requests that would have left and the hosts that were resolved. */
async function callsOf(provider: AnyProvider, publicConfig: object): Promise<Call[] | undefined> {
  const account = parseAccount(
    provider,
    publicConfig,
    CATALOG_ACCOUNTS[provider.id as ProviderKind].secretConfig,
  );
  if (!account.ok) return undefined;
  const calls: Call[] = [];
  const contexts = createProviderContexts({
    async http({ url, isTenantHost }) {
      calls.push({ url, ...(isTenantHost === undefined ? {} : { isTenantHost }) });
      return { kind: 'not_sent', code: 'connect_refused' };
    },
    resolve: async (host) => {
      calls.push({ url: `tcp://${host.includes(':') ? `[${host}]` : host}`, isTenantHost: true });
      return { kind: 'refused', code: 'egress_blocked' };
    },
  });
  const signal = AbortSignal.timeout(10_000);
  const context = contexts({ provider: provider.id, accountId: 'account', version: 1, until: signal });
  await provider.send(messageTo(provider.channel) as never, account as never, context);
  await provider.verify(account as never, context);
  return calls;
}

describe.each([...PROVIDERS.values()])('$id', (provider) => {
  const { publicConfig } = CATALOG_ACCOUNTS[provider.id as ProviderKind];

  test('has a test account with every secret or an alternative to it', () => {
    const sent = CATALOG_ACCOUNTS[provider.id as ProviderKind];
    expect(parseAccount(provider, sent.publicConfig, sent.secretConfig)).toMatchObject({ ok: true });
    const missing = Object.keys(provider.secrets.shape).filter((field) => !(field in sent.secretConfig));
    const others: Readonly<Record<string, readonly string[]>> = {
      fcm: ['serviceAccountJson'],
      smtp: ['clientId', 'clientSecret', 'refreshToken'],
    };
    expect(missing).toEqual(others[provider.id] ?? []);
  });

  test('calls a host that a setting names only through the egress guard', async () => {
    for (const field of Object.keys(provider.config.shape)) {
      for (const value of HOSTILE_SETTINGS) {
        const calls = await callsOf(provider, { ...publicConfig, [field]: value });
        if (calls === undefined) continue;
        for (const { url, isTenantHost } of calls) {
          const { hostname, username, protocol } = new URL(url);
          expect({ field, value, username }).toEqual({ field, value, username: '' });
          if (isTenantHost === true) continue;
          expect({ field, value, hostname, protocol }).toMatchObject({ protocol: 'https:' });
          expect(isOurs(hostname), `${field}=${value} leads to ${hostname}`).toBe(false);
        }
      }
    }
    const plain = (await callsOf(provider, publicConfig)) ?? [];
    expect(plain.length > 0).toBe(!provider.id.startsWith('simulator-'));
  });
});

test.each(['webhook-sms', 'webhook-email', 'webhook-push', 'webhook-whatsapp'])(
  '%s calls no gateway whose name resolves to an internal address, even if a public one is among them',
  async (id) => {
    const inside = ['127.0.0.1', '10.0.0.1', '169.254.169.254', '::1', '::ffff:127.0.0.1', 'fd00:ec2::254'];
    const outside = '93.184.215.14';
    await using dns = await startDnsServer(({ name }) => {
      const address = inside[Number(/^rebind-(\d)/.exec(name)?.[1])];
      return address === undefined ? [outside] : [address, outside];
    });
    const guard = createEgressGuard({
      allowCidrs: [],
      ports: [443],
      resolveHost: createHostResolver({ servers: [dns.address] }),
    });
    // A name that leads outside alone is fine, so that what is refused below is refused for where it leads.
    expect(await guard.resolve('outside.example', 443)).toMatchObject({ kind: 'resolved' });
    await using http = createHttpClient({ guard });
    const contexts = createProviderContexts({ http, resolve: guard.resolve });
    const provider = PROVIDERS.get(id);
    const { publicConfig, secretConfig } = CATALOG_ACCOUNTS[id as ProviderKind];
    if (provider === undefined) throw new Error(`The catalog lacks ${id}`);
    for (let i = 0; i < inside.length; i += 1) {
      const url = `https://rebind-${i}.attack.example/hook`;
      const account = parseAccount(provider, { ...publicConfig, url }, secretConfig);
      const signal = AbortSignal.timeout(10_000);
      const context = contexts({ provider: id, accountId: 'account', version: 1, until: signal });
      const outcome = await provider.send(messageTo(provider.channel) as never, account as never, context);
      expect(outcome).toMatchObject({ failure: { code: 'egress_blocked' } });
    }
    expect(dns.asked.length).toBeGreaterThanOrEqual(inside.length);
  },
);
