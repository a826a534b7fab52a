import { HOUR_MS } from '#core/domain/text/duration.ts';
import type { Fault } from './fault.ts';

export const CLOCK_FAULTS: readonly Fault[] = (['api', 'worker'] as const).flatMap((kind) =>
  [-HOUR_MS, HOUR_MS].map((offsetMs): Fault => ({
    name: `clock-${kind}-${offsetMs < 0 ? 'back' : 'ahead'}`,
    async inject({ rig, random }) {
      const node = random.pick(rig[`${kind}s`]);
      await node.setClock(offsetMs);
      return { target: node.service.name, holdMs: random.whole(1_000, 3_000), heal: () => node.setClock(0) };
    },
  })),
);
