import { expect, test } from 'vitest';
import { findProvider, parseAccount } from '#providers/registry.ts';
import { accountsOf, nextSmsAccount } from './accounts.ts';

test('every account is valid in the catalog, and every channel has one', async () => {
  const accounts = [...accountsOf('acme', 2525), nextSmsAccount('acme')];
  for (const { channel, provider: id, publicConfig, secretConfig } of accounts) {
    const provider = findProvider(id);
    expect(provider?.channel).toBe(channel);
    if (provider === undefined) continue;
    expect(parseAccount(provider, publicConfig, await secretConfig())).toMatchObject({ ok: true });
  }
  expect(accounts.map(({ channel }) => channel)).toEqual([
    'sms',
    'email',
    'email',
    'push',
    'whatsapp',
    'sms',
  ]);
});

test('tenants have different identifiers at each vendor, and keep them', () => {
  const configs = (slug: string) =>
    [...accountsOf(slug, 2525), nextSmsAccount(slug)].map(({ publicConfig }) => publicConfig);
  expect(configs('acme')).toEqual(configs('acme'));
  const [acme, globex] = [configs('acme'), configs('globex')];
  for (const [index, config] of acme.entries()) expect(config).not.toEqual(globex[index]);
});
