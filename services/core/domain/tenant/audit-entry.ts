/**
 * What the restore of a change needs besides its target: ids, fixed words, times. The facts are written to the log, so they never
 * contain a name, an address or a secret.
 */
export type AuditFacts = Readonly<Record<string, string | number | readonly string[] | null>>;

/** A committed change of a tenant's settings. */
export type AuditEntry = {
  readonly id: string;
  /** Orders a tenant's entries; null for an entry that is in no table, as for a tenant whose rows are deleted. */
  readonly seq: number | null;
  /** ISO 8601 in UTC, with milliseconds. */
  readonly at: string;
  readonly tenantId: string;
  /** A user's id, or "resource:namespace/name". */
  readonly actor: string;
  /** The kind of change, for example `api_key.revoked`. */
  readonly action: string;
  /** The id of the changed object. */
  readonly target: string;
  readonly requestId: string | null;
  readonly facts: AuditFacts;
};

/** Called with each entry after its commit. */
export type AuditTrail = (entry: AuditEntry) => void;
