/**
 * Upkeep's tasks for a partition. `blocked`: it can no longer be made, because rows of its week are already in the default
 * partition.
 */
export const PARTITION_TASKS = ['make', 'drop', 'blocked'] as const;
export type PartitionTask = (typeof PARTITION_TASKS)[number];
