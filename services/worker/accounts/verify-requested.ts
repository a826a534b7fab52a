import { ADAPTER_FAULT } from '#core/domain/sending/failure.ts';
import { verificationReason } from '#core/domain/account/verification-reason.ts';
import type { Verification } from '#providers/provider.ts';
import type { ProviderAccountRow } from '#core/store/accounts/called-accounts.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';
import type { Account, Accounts } from './accounts.ts';
import type { Breakers } from './breakers.ts';
import { callAdapter, type CallAdapterDeps } from './call-adapter.ts';

export type VerifyDeps = Omit<CallAdapterDeps, 'signal'> & {
  readonly store: Pick<WorkerStore, 'takeVerifications' | 'noteVerification' | 'loadAccounts'>;
  readonly accounts: Accounts;
  readonly breakers: Pick<Breakers, 'reset'>;
  readonly isStopping: () => boolean;
  readonly onVerified: (accountId: string, result: Verification['kind']) => void;
};

const CHECKS_AT_ONCE = 16;

/** Runs the credential checks that are due. An unreachable provider does not change the account's status. */
export async function verifyRequested(deps: VerifyDeps): Promise<void> {
  for (;;) {
    const asked = await deps.store.takeVerifications(CHECKS_AT_ONCE);
    if (asked.length === 0) return;
    const rows = await deps.store.loadAccounts(asked);
    await Promise.all([...rows.values()].map((row) => verifyOne(row, deps)));
    if (deps.isStopping()) return;
  }
}

async function verifyOne(row: ProviderAccountRow, deps: VerifyDeps): Promise<void> {
  const found = await deps.accounts.get(row.id, row.version);
  // The request stays in the database and is taken again later.
  if (found.kind === 'unavailable') return;
  // The result is valid only for the version of settings and secret that was tested.
  const version = found.kind === 'ready' ? found.account.version : row.version;
  const result: Verification =
    found.kind === 'ready'
      ? await tryAccount(found.account, deps)
      : { kind: 'invalid', failure: { class: 'auth_or_config', code: found.code } };
  deps.onVerified(row.id, result.kind);
  const reason = result.kind === 'valid' ? null : verificationReason(result.failure);
  await deps.store.noteVerification(row.id, version, result.kind, reason);
  if (result.kind === 'valid') deps.breakers.reset(row.id);
}

function tryAccount(account: Account, deps: VerifyDeps): Promise<Verification> {
  const failed = {
    kind: 'unknown',
    failure: { class: 'provider_unavailable', code: ADAPTER_FAULT },
  } as const;
  const { provider } = account;
  return callAdapter<Verification>(
    account,
    deps,
    (known, context) => provider.verify(known, context),
    failed,
  );
}
