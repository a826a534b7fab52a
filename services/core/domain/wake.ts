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

/** Wake-ups that one message of the stream carries at most; well below the stream's message size. */
export const WAKES_PER_MESSAGE_MAX = 256;

/** One line a wake-up, so that those of one commit travel as one message. */
export function encodeWakes(wakes: readonly Omit<Wake, 'priority'>[]): string {
  return wakes.map((wake) => `${wake.id} ${wake.purgeOn} ${wake.tenantId}`).join('\n');
}

/** Whatever is not a wake-up is left out; the sweep finds what it may have meant. */
export function decodeWakes(payload: string, lane: string): Wake[] {
  const priority = LANE_PRIORITY[lane] ?? 1;
  return payload.split('\n', WAKES_PER_MESSAGE_MAX).flatMap((line) => {
    const [id, purgeOn, tenantId, ...more] = line.split(' ');
    if (id === undefined || purgeOn === undefined || tenantId === undefined || more.length > 0) return [];
    if (!isUuid(id) || !isUuid(tenantId) || !DAY.test(purgeOn)) return [];
    return [{ id, purgeOn, tenantId, priority }];
  });
}
