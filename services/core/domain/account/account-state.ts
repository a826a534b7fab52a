/** States of a provider account until it is deleted. */
export const ACCOUNT_STATUSES = ['unverified', 'active', 'invalid', 'disabled'] as const;
export type AccountStatus = (typeof ACCOUNT_STATUSES)[number];

export type AccountMove = {
  /** `tenant`: a person through the api, or the replay of such a request after a restore. `worker`: from the provider's answers. */
  readonly by: 'tenant' | 'worker';
  readonly from: readonly AccountStatus[];
  /** `deleted`: the row stays for the messages that name it, without secrets. */
  readonly to: AccountStatus | 'deleted';
};

/**
 * The moves of a provider account. This table is authoritative: `services/ARCHITECTURE.md` draws it and a test compares the two.
 * Every statement that stores a state calls the SQL function `may_move_account`, which is generated from it. Only a person can
 * move an account out of `disabled`.
 */
export const ACCOUNT_MOVES = {
  /** The provider has accepted a send or the credential check. */
  accept: { by: 'worker', from: ['unverified', 'invalid'], to: 'active' },
  /** The provider has refused the credential check, or the credential of three sends in a row (SQL `note_account_result`). */
  refuse: { by: 'worker', from: ['unverified', 'active'], to: 'invalid' },
  /** The settings or the secret have changed. A disabled account stays disabled. */
  change: { by: 'tenant', from: ['unverified', 'active', 'invalid'], to: 'unverified' },
  /** A credential check is requested too. */
  enable: { by: 'tenant', from: ['disabled'], to: 'active' },
  disable: { by: 'tenant', from: ['unverified', 'active', 'invalid'], to: 'disabled' },
  delete: { by: 'tenant', from: ACCOUNT_STATUSES, to: 'deleted' },
} satisfies Record<string, AccountMove>;

export type AccountMoveName = keyof typeof ACCOUNT_MOVES;
export const ACCOUNT_MOVE_NAMES = Object.keys(ACCOUNT_MOVES) as AccountMoveName[];
