/** What growth measures, each part in databases of its own, with the names that reports use. */
export const GROWTH_PARTS = {
  messages: 'the same tenants, more messages',
  tenants: 'the same messages, more tenants',
  scheduled: 'beside messages that are scheduled',
  suppressions: 'beside suppressed recipients',
  routes: 'with routes of 20 steps',
} as const;
export type GrowthPart = keyof typeof GROWTH_PARTS;

export const GROWTH_PART_NAMES = Object.keys(GROWTH_PARTS) as GrowthPart[];

/** What a database contains beside its messages; the others are compared with `nothing`. */
export type Planted = 'nothing' | Exclude<GrowthPart, 'messages' | 'tenants'>;

/** Returns the kinds of databases that the parts need; none where no part plants anything. */
export function plantedOf(parts: readonly GrowthPart[]): Planted[] {
  const planted = parts.filter((part) => part !== 'messages' && part !== 'tenants');
  return planted.length === 0 ? [] : ['nothing', ...planted];
}
