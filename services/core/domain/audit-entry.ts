/**
 * What a replay has to know of a change beyond whom it was done to: ids, fixed words, times. It is written to the log:
 * never a name, an address or a secret.
 */
export type AuditFacts = Readonly<Record<string, string | number | readonly string[] | null>>;

/** A change of a tenant's settings that has been committed. */
export type AuditEntry = {
  readonly id: string;
  /** Orders a tenant's entries; null for one that is in no table, as of a tenant whose rows are gone. */
  readonly seq: number | null;
  /** ISO 8601 in UTC, to the millisecond. */
  readonly at: string;
  readonly tenantId: string;
  /** A user's id, or "resource:namespace/name". */
  readonly actor: string;
  /** What was done, for example `api_key.revoked`. */
  readonly action: string;
  /** The id of what it was done to. */
  readonly target: string;
  readonly requestId: string | null;
  readonly facts: AuditFacts;
};

/** Told of each entry after its commit. */
export type AuditTrail = (entry: AuditEntry) => void;
