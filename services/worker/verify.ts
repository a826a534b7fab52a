import type { Verification } from '#providers/provider.ts';
import type { DeliveryStore, ProviderAccountRow } from '#core/store/deliveries.ts';
import type { ProviderCall } from '#providers/context.ts';
import type { ProviderContext } from '#providers/provider.ts';
import type { Accounts } from './accounts.ts';
import type { Breakers } from './breakers.ts';

export type VerifyDeps = {
  readonly store: Pick<DeliveryStore, 'takeVerifications' | 'noteVerification' | 'loadProviders'>;
  readonly accounts: Accounts;
  readonly breakers: Pick<Breakers, 'reset'>;
  readonly contextOf: (call: ProviderCall) => ProviderContext;
  readonly deadlineMs: number;
  readonly onVerified: (accountId: string, result: Verification['kind']) => void;
};

const CHECKS_AT_ONCE = 16;

/** Runs the credential checks that people asked for. An unreachable provider changes nothing about an account. */
export async function verifyRequested(deps: VerifyDeps): Promise<void> {
  const asked = await deps.store.takeVerifications(CHECKS_AT_ONCE);
  if (asked.length === 0) return;
  const rows = await deps.store.loadProviders(asked.map(({ id }) => id));
  await Promise.all(
    asked.map(async ({ id, secretVersion }) => {
      const row = rows.get(id);
      if (row !== undefined) await verifyOne(row, secretVersion, deps);
    }),
  );
}

/** @param secretVersion The version that somebody wants to be checked. */
async function verifyOne(row: ProviderAccountRow, secretVersion: number, deps: VerifyDeps): Promise<void> {
  const found = await deps.accounts.get(row.id, row.version);
  // The request stays and comes again.
  if (found.kind === 'unavailable') return;
  const result: Verification =
    found.kind === 'unusable'
      ? { kind: 'invalid', failure: { class: 'auth_or_config', code: found.code } }
      : await found.account.provider.verify(
          { config: found.account.config, secrets: found.account.secrets } as never,
          deps.contextOf({
            providerId: found.account.provider.id,
            accountId: row.id,
            secretVersion: row.secretVersion,
            signal: AbortSignal.timeout(deps.deadlineMs),
          }),
        );
  deps.onVerified(row.id, result.kind);
  const valid = result.kind === 'unknown' ? null : result.kind === 'valid';
  const why = result.kind === 'valid' ? null : result.failure.code;
  await deps.store.noteVerification(row.id, secretVersion, valid, why);
  if (valid === true) deps.breakers.reset(row.id);
}
