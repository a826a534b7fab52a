import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { PROVIDERS } from '#providers/registry.gen.ts';
import { findProvider } from '#providers/registry.ts';
import type { Received } from '#providers/stand-in.ts';
import { runQuickstart, type RunningQuickstart } from '#test/support/running-quickstart.ts';
import { messageOf, VENDOR_ACCOUNTS } from '#test/support/vendor-accounts.ts';
import type { StandInId } from '../../../deploy/quickstart/vendors.ts';

/** The providers with an HTTP API: mail goes to the inbox, and simulators make no calls. */
const CALLING = [...PROVIDERS.keys()].filter(
  (id) => id !== 'smtp' && !id.startsWith('simulator-'),
) as StandInId[];

type Account = { readonly id: string };
type Shown = { readonly status: string; readonly failure: { readonly class: string } | null };

/** Sinch's error codes do not tell which part of a request is invalid. */
const REFUSED_AS: Readonly<Record<string, string>> = { sinch: 'unknown' };

/** Does what a user does to try out a provider: adds it and sends through it. */
describe('a provider that is added to a running quick start', () => {
  let quickstart: RunningQuickstart;
  beforeAll(async () => {
    quickstart = await runQuickstart();
  });
  afterAll(() => quickstart[Symbol.asyncDispose]());

  test.each(CALLING)('%s delivers a message and rejects an invalid recipient', async (provider) => {
    const { connection, asOwner, asTenant } = quickstart;
    const account = { provider, label: `Mine of ${provider}`, ...VENDOR_ACCOUNTS[provider] };
    const { id: providerId } = await asOwner<Account>('POST', '/v1/admin/providers', account);
    const send = (behaviour: 'delivered' | 'invalid') =>
      asTenant<Account>('POST', '/v1/messages', { ...messageOf(provider, behaviour), providerId });
    const look = ({ id }: Account) => asTenant<Shown>('GET', `/v1/messages/${id}`);

    const delivered = await send('delivered');
    const end = findProvider(provider)?.receipts == null ? 'sent' : 'delivered';
    await expect.poll(() => look(delivered).then(({ status }) => status)).toBe(end);

    const received = (await (
      await fetch(`${connection.providerUrls[provider]}/received`)
    ).json()) as Received[];
    expect(received.map(({ method }) => method)).toContain('POST');

    // APNs addresses a device by its token, so the recipient cannot be the word `invalid`.
    if (provider === 'apns') return;
    // The provider before refused the same recipient, which suppressed it.
    const { items } = await asOwner<{ items: Account[] }>('GET', '/v1/admin/suppressions');
    for (const { id } of items) await asOwner('DELETE', `/v1/admin/suppressions/${id}`);
    const refused = await send('invalid');
    await expect
      .poll(() => look(refused))
      .toMatchObject({ status: 'failed', failure: { class: REFUSED_AS[provider] ?? 'invalid_recipient' } });
  });
});
