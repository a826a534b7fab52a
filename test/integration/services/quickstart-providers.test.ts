import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { PROVIDERS } from '#providers/registry.gen.ts';
import { findProvider } from '#providers/registry.ts';
import type { Received } from '#providers/stand-in.ts';
import { runQuickstart, type RunningQuickstart } from '#test/support/running-quickstart.ts';
import { messageOf, VENDOR_ACCOUNTS } from '#test/support/vendor-accounts.ts';
import type { StandInId } from '../../../deploy/quickstart/vendors.ts';

/** Of the catalog: mail servers are the inbox's, and simulators call nobody. */
const CALLING = [...PROVIDERS.keys()].filter(
  (id) => id !== 'smtp' && !id.startsWith('simulator-'),
) as StandInId[];

type Account = { readonly id: string };
type Shown = { readonly status: string; readonly failure: { readonly class: string } | null };

/** The codes of Sinch do not tell which part of a request is at fault. */
const REFUSED_AS: Readonly<Record<string, string>> = { sinch: 'unknown' };

/** What a person does who tries a provider out: adds it, and sends by it. */
describe('a provider that is added to a running quick start', () => {
  let quickstart: RunningQuickstart;
  beforeAll(async () => {
    quickstart = await runQuickstart();
  });
  afterAll(() => quickstart[Symbol.asyncDispose]());

  test.each(CALLING)('%s delivers, and refuses', async (provider) => {
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

    // Apple knows a device by its token, which cannot be a word.
    if (provider === 'apns') return;
    // The one before was told the same, and had the recipient suppressed.
    const { items } = await asOwner<{ items: Account[] }>('GET', '/v1/admin/suppressions');
    for (const { id } of items) await asOwner('DELETE', `/v1/admin/suppressions/${id}`);
    const refused = await send('invalid');
    await expect
      .poll(() => look(refused))
      .toMatchObject({ status: 'failed', failure: { class: REFUSED_AS[provider] ?? 'invalid_recipient' } });
  });
});
