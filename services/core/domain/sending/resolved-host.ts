/** A host chosen by a tenant, resolved and checked; or why it must not be connected to. */
export type ResolvedHost =
  | {
      readonly kind: 'resolved';
      /** All checked, in the order in which to try them. */
      readonly addresses: readonly [string, ...string[]];
    }
  | { readonly kind: 'refused'; readonly code: 'dns' | 'egress_blocked' };
