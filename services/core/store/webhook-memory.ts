/**
 * What a worker remembers of the queries for its webhooks, so that the next ones read less. Forgetting any of it costs no more than
 * another look.
 */
export type WebhookMemory = {
  readonly due: DueEndpoints;
  readonly behind: BehindTenants;
  readonly matched: MatchedPositions;
};

/** Endpoints that had deliveries due when they were last looked at. A look at all endpoints is a **round** of calls. */
export type DueEndpoints = {
  /**
   * Returns where the next call looks.
   * @param after null: a new round begins. @param most endpoints that the call looks at: it needs to know no more than these and
   * the one after them.
   */
  look(after: string | null, most: number): { readonly since: string; readonly known: readonly object[] };
  looked(look: DueLook): void;
};

/** The findings of a call. */
export type DueLook = {
  readonly seen: readonly string[];
  /** Since when each of them has something due; null: it has nothing. */
  readonly earliest: readonly (Date | null)[];
  /** Where the next call of the round begins; null: the round is over. */
  readonly next: string | null;
  /** By the database's clock. */
  readonly lookedAt: Date;
};

/** Tenants with an endpoint that was behind when a worker looked. */
export type BehindTenants = {
  /** @param isComplete whether no tenant is behind except those found so far. */
  found(tenantIds: readonly string[], isComplete: boolean): void;
  /** Returns undefined if there was no complete look lately. */
  all(): readonly string[] | undefined;
  /** Replaces the state of the `asked` tenants: only those in `behind` are still behind. */
  left(asked: readonly string[], behind: readonly string[]): void;
};

/** How far tenants' feeds are matched for endpoints that no recent event matched, beyond the stored position. */
export type MatchedPositions = {
  readonly of: (endpoint: StoredPosition) => number;
  /** Notes a position. @returns whether it is time to store it. */
  note(endpoint: StoredPosition, upto: number): boolean;
  forget(endpointId: string): void;
};

export type StoredPosition = {
  readonly id: string;
  readonly version: number;
  readonly matchedTo: number;
  /** The start time of the database server that returned `matchedTo`. */
  readonly server: number;
};
