export type WorkerSettings = {
  /** A name for people; other processes may have the same one. */
  readonly name: string;
  /** The most provider calls at once. */
  readonly inFlightMax: number;
  /** The most wake-ups of one tenant that are kept in memory; further messages stay in the database. */
  readonly queuedPerTenantMax: number;
  /** The most wake-ups of all tenants that are kept in memory. */
  readonly queuedMax: number;
  /** Total time of one provider call in milliseconds, unless the provider asks for more. */
  readonly deadlineMs: number;
  /** Length of a claim's lease in milliseconds; an attempt that is not recorded by then counts as lost. */
  readonly leaseMs: number;
  /** The most bytes in memory of contents that are stored apart from their messages. */
  readonly largeContentBytesMax: number;
  /** Time between two sweeps, in milliseconds. */
  readonly sweepMs: number;
};
