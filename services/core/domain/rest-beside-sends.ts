/** Work that can wait, such as receipts beyond the expected ones, or events for endpoints. */
export type SideWork = {
  /** How long it took, in milliseconds. */
  readonly tookMs: number;
  /** Messages are on their way, or were a moment ago. */
  readonly isSending: boolean;
  /** How long what it was about had waited; the longest. */
  readonly waitedMs: number;
};

/** While messages are on their way, such work has a third of the time. */
const REST = 2;
/** A batch that took very long says more about the database than about the next batch. */
export const REST_MS_MAX = 1_000;
/** Nobody minds what is so much late. */
const PATIENCE_MS = 15_000;
/** By then it has all of the time: it comes as long as messages are sent, and must not fall behind for ever. */
const LATE_MS = 60_000;

/** How long to leave the database and this process to messages before the next work of its kind, in milliseconds. */
export function restBesideSendsMs({ tookMs, isSending, waitedMs }: SideWork): number {
  if (!isSending) return 0;
  const lateness = (waitedMs - PATIENCE_MS) / (LATE_MS - PATIENCE_MS);
  const rest = REST * (1 - Math.min(1, Math.max(0, lateness)));
  return Math.min(REST_MS_MAX, Math.max(0, tookMs) * rest);
}
