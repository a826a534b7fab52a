import { describe, expect, test } from 'vitest';
import type { AttemptOutcome } from '#core/domain/sending/outcome.ts';
import type { ProviderAccountId, TenantId } from '#core/domain/storage/ids.ts';
import { requestVerification, rotateReceiptUrl } from '#core/store/accounts/provider-accounts.ts';
import { withTenant } from '#core/store/query/tenant-scope.ts';
import { seedAccount, seedTenant } from '#test/support/seed.ts';
import { completionOf } from '#test/support/completion-of.ts';
import { type MessageBench, setupMessages, terms } from '#test/support/setup-messages.ts';

describe('provider accounts', () => {
  test('three refused sends in a row make an account invalid; a success resets the count', async () => {
    await using b = await setupMessages();
    const refuse = () => b.store.noteAccountResult(b.accountId, 1, 'forbidden');
    expect([await refuse(), await refuse()]).toEqual([null, null]);
    expect(await b.store.noteAccountResult(b.accountId, 1, null)).toBe('active');
    expect([await refuse(), await refuse(), await refuse()]).toEqual([null, null, 'invalid']);
    expect(await invalidated(b)).toEqual({
      status: 'invalid',
      status_reason: 'forbidden',
      verified_at: null,
    });
    expect(await b.store.noteAccountResult(b.accountId, 1, null)).toBe('active');
    expect(await invalidated(b)).toEqual({
      status: 'active',
      status_reason: null,
      verified_at: expect.any(Date) as Date,
    });
  });

  test('the result of a send with an older account version does not change the account', async () => {
    await using b = await setupMessages();
    await b.admin`update despatch.provider_accounts set version = 2, auth_failures = 2`;
    expect(await b.store.noteAccountResult(b.accountId, 1, 'forbidden')).toBeNull();
    expect(await b.store.noteAccountResult(b.accountId, 1, null)).toBeNull();
    expect(await invalidated(b)).toEqual({ status: 'unverified', status_reason: null, verified_at: null });
  });

  test('a claimed message shows whether its account was refused since its last success', async () => {
    await using b = await setupMessages();
    const isRefused = async () => (await b.store.claim(await b.accept(), terms()))[0]?.isAccountRefused;
    expect(await isRefused()).toBe(false);
    await b.store.noteAccountResult(b.accountId, 1, 'forbidden');
    expect(await isRefused()).toBe(true);
    await b.store.noteAccountResult(b.accountId, 1, null);
    expect(await isRefused()).toBe(false);
  });

  test('an unanswered credential check is handed out again when due, an answered one is not', async () => {
    await using b = await setupMessages();
    await b.admin`update despatch.provider_accounts set verify_requested_at = now()`;
    const asked = await b.store.takeVerifications(10);
    expect(asked).toEqual([b.accountId]);
    expect(await b.store.takeVerifications(10)).toEqual([]);
    await b.admin`update despatch.provider_accounts set verify_requested_at = now()`;
    expect(await b.store.takeVerifications(10)).toHaveLength(1);
    await b.store.noteVerification(b.accountId, 1, 'unknown', 'timeout');
    const [row] = await b.admin`select status, verify_requested_at from despatch.provider_accounts`;
    expect(row).toEqual({ status: 'unverified', verify_requested_at: null });
  });

  test('a credential check stores its result and reason; an invalid account loses verified_at', async () => {
    await using b = await setupMessages();
    const verified = async (result: 'valid' | 'invalid' | 'unknown', reason: string | null) => {
      const moved = await b.store.noteVerification(b.accountId, 1, result, reason);
      const [row] = await b.admin`
        select status, status_reason, verification_result, verification_reason, verified_at is not null as verified
        from despatch.provider_accounts`;
      return [moved, ...Object.values(row ?? {})];
    };
    expect(await verified('unknown', 'dns')).toEqual([null, 'unverified', 'dns', 'unknown', 'dns', false]);
    expect(await verified('valid', null)).toEqual(['active', 'active', null, 'valid', null, true]);
    // A check that could not reach the provider leaves an active account active.
    expect(await verified('unknown', 'tls')).toEqual([null, 'active', null, 'unknown', 'tls', true]);
    expect(await verified('invalid', 'forbidden')).toEqual([
      'invalid',
      'invalid',
      'forbidden',
      'invalid',
      'forbidden',
      false,
    ]);
    expect(await verified('unknown', 'timeout')).toEqual([
      null,
      'invalid',
      'forbidden',
      'unknown',
      'timeout',
      false,
    ]);
  });

  test('the answer of a check says nothing about settings or a secret that came after it', async () => {
    await using b = await setupMessages();
    await b.admin`update despatch.provider_accounts set version = 2, verify_requested_at = now()`;
    expect(await b.store.noteVerification(b.accountId, 1, 'valid', null)).toBeNull();
    expect(await b.store.noteVerification(b.accountId, 1, 'invalid', 'unauthorized')).toBeNull();
    expect(await invalidated(b)).toEqual({ status: 'unverified', status_reason: null, verified_at: null });
    expect(await b.store.takeVerifications(10)).toEqual([b.accountId]);
  });

  test('the answer of a check that began before another one was requested does not count', async () => {
    await using b = await setupMessages();
    const request = () => requested(b);
    await request();
    const [earlier] = [...(await b.store.loadAccounts(await b.store.takeVerifications(10))).values()];
    await request();
    expect(
      await b.store.noteVerification(b.accountId, earlier?.version ?? 0, 'invalid', 'forbidden'),
    ).toBeNull();
    expect(await invalidated(b)).toMatchObject({ status: 'unverified', status_reason: null });
    const later = await b.store.loadAccounts(await b.store.takeVerifications(10));
    const version = later.get(b.accountId)?.version ?? 0;
    expect(await b.store.noteVerification(b.accountId, version, 'valid', null)).toBe('active');
    expect(
      await b.store.noteVerification(b.accountId, earlier?.version ?? 0, 'invalid', 'forbidden'),
    ).toBeNull();
    expect(await invalidated(b)).toMatchObject({ status: 'active' });
  });

  test('a check under way when the receipt URL is replaced is due again at once', async () => {
    await using b = await setupMessages();
    const tenantId = b.tenant.tenantId as TenantId;
    const rotate = () =>
      withTenant(b.api, tenantId, (tx) =>
        rotateReceiptUrl(tenantId, tx, b.accountId as ProviderAccountId, 0),
      );
    await rotate();
    expect(await b.store.takeVerifications(10)).toEqual([]);
    await requested(b);
    expect(await b.store.takeVerifications(10)).toEqual([b.accountId]);
    await rotate();
    expect(await b.store.takeVerifications(10)).toEqual([b.accountId]);
  });

  test('credential checks are limited per tenant, so that other tenants are checked too', async () => {
    await using b = await setupMessages();
    const loud = await seedTenant(b.admin);
    for (let i = 0; i < 20; i++) await seedAccount(b.admin, loud.tenantId);
    await b.admin`
      update despatch.provider_accounts
      set verify_requested_at = now() - case when tenant_id = ${loud.tenantId} then interval '1 minute' else interval '0' end`;
    const first = await b.store.takeVerifications(16);
    expect(first).toHaveLength(9);
    expect(first).toContain(b.accountId);
    expect(await b.store.takeVerifications(16)).toEqual([]);
    for (const id of first) await b.store.noteVerification(id, 1, 'valid', null);
    expect(await b.store.takeVerifications(16)).toHaveLength(8);
  });

  test('a disabled account is not checked', async () => {
    await using b = await setupMessages();
    await b.admin`update despatch.provider_accounts set status = 'disabled', verify_requested_at = now()`;
    expect(await b.store.takeVerifications(10)).toEqual([]);
    expect(await b.store.noteVerification(b.accountId, 1, 'valid', null)).toBeNull();
  });

  test('messages deferred for a refused credential are due at once after a valid check', async () => {
    await using b = await setupMessages();
    const [message] = await b.store.claim(await b.accept(), terms());
    if (message === undefined) throw new Error('not claimed');
    const refused: AttemptOutcome = {
      kind: 'rejected_transient',
      failure: { class: 'auth_or_config', code: 'unauthorized' },
    };
    await b.store.complete([completionOf(message, refused)]);
    expect(await b.claimDue(10, 0)).toEqual([]);
    await b.store.noteVerification(b.accountId, 1, 'valid', null);
    expect(await b.claimDue(10, 0)).toMatchObject([{ retries: 0, attempt: 2 }]);
  });
});

/** Requests a check as the api does. */
function requested(b: MessageBench): Promise<void> {
  const tenantId = b.tenant.tenantId as TenantId;
  return withTenant(b.api, tenantId, (tx) =>
    requestVerification(tenantId, tx, b.accountId as ProviderAccountId),
  );
}

async function invalidated(b: MessageBench) {
  const [row] = await b.admin`select status, status_reason, verified_at from despatch.provider_accounts`;
  return row;
}
