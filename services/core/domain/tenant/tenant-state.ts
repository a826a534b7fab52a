/**
 * The states of a tenant and the moves between them. This table is authoritative: `services/ARCHITECTURE.md` draws it and a test
 * compares the two; every statement that stores a state calls the SQL function `may_move_tenant`, which is generated from it.
 */
export const TENANT_MOVES = {
  /** No tenant is stored in this state: each is created in one transaction. */
  provisioning: ['active', 'suspended', 'deleting'],
  /** Also `active`: a resource or a person states what it is already. */
  active: ['active', 'suspended', 'deleting'],
  /** Also `suspended`: perhaps for another reason. */
  suspended: ['active', 'suspended', 'deleting'],
  /** Its rows are deleted in slices, and its own row last. */
  deleting: ['deleted'],
  deleted: [],
} as const satisfies Record<string, readonly string[]>;

export type TenantState = keyof typeof TENANT_MOVES;
export const TENANT_STATES = Object.keys(TENANT_MOVES) as [TenantState, ...TenantState[]];
