/**
 * What upkeep has to do about a partition; `blocked`: it cannot be made any more, as rows of its week are in the default
 * partition already.
 */
export const PARTITION_TASKS = ['make', 'drop', 'blocked'] as const;
export type PartitionTask = (typeof PARTITION_TASKS)[number];
