import { isUuid } from './ids.ts';

/** What a wake-up names: nothing but where to look. Whoever can publish one makes the worker look, no more. */
export type Wake = {
  readonly id: string;
  readonly purgeOn: string;
  readonly tenantId: string;
  readonly priority: number;
};

const DAY = /^\d{4}-\d{2}-\d{2}$/;
const LANE_PRIORITY: Readonly<Record<string, number>> = { high: 0, normal: 1, bulk: 2 };

export function encodeWake(wake: Omit<Wake, 'priority'>): string {
  return `${wake.id} ${wake.purgeOn} ${wake.tenantId}`;
}

/** @returns null for anything that is not a wake-up; it is then dropped, the sweep finds what it may have meant. */
export function decodeWake(payload: string, lane: string): Wake | null {
  const [id, purgeOn, tenantId, ...more] = payload.split(' ');
  if (id === undefined || purgeOn === undefined || tenantId === undefined || more.length > 0) return null;
  if (!isUuid(id) || !isUuid(tenantId) || !DAY.test(purgeOn)) return null;
  return { id, purgeOn, tenantId, priority: LANE_PRIORITY[lane] ?? 1 };
}
