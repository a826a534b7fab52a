/** What growth measures, each in databases of its own, with the words that reports use for it. */
export const GROWTH_PARTS = {
  messages: 'the same tenants, more messages',
  tenants: 'the same messages, more tenants',
  scheduled: 'beside messages that are scheduled',
  suppressions: 'beside suppressed recipients',
  routes: 'with routes of 20 steps',
} as const;
export type GrowthPart = keyof typeof GROWTH_PARTS;

export const GROWTH_PART_NAMES = Object.keys(GROWTH_PARTS) as GrowthPart[];

/** What is planted into a database beside its messages; `nothing` is what the others are compared with. */
export type Planted = 'nothing' | Exclude<GrowthPart, 'messages' | 'tenants'>;

/** The databases of the parts that plant something; none where none does. */
export function plantedOf(parts: readonly GrowthPart[]): Planted[] {
  const planted = parts.filter((part) => part !== 'messages' && part !== 'tenants');
  return planted.length === 0 ? [] : ['nothing', ...planted];
}
