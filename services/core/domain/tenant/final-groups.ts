import { BRAKE_WINDOW } from './brake.ts';

/** Messages that became final together, and the reports about them, whenever they came. */
export type RatedMessages = {
  readonly finals: number;
  /** Messages to addresses that providers have reported as nonexistent. */
  readonly hardBounces: number;
  readonly complaints: number;
};

const NONE: RatedMessages = { finals: 0, hardBounces: 0, complaints: 0 };

/**
 * Groups hours, from the newest to the oldest, until a group has at least `BRAKE_WINDOW` final messages. So reports are compared
 * with the messages they are about, and not with what was sent since. The oldest hours may be too few for a group: they form
 * another one together with the last group, so that reports about them count too.
 * @param hours of one channel, the newest first.
 * @returns no group if all hours have too few messages.
 */
export function finalGroups(hours: readonly RatedMessages[]): readonly RatedMessages[] {
  const groups: RatedMessages[] = [];
  let open = NONE;
  for (const hour of hours) {
    open = sumOf(open, hour);
    if (open.finals < BRAKE_WINDOW) continue;
    groups.push(open);
    open = NONE;
  }
  const last = groups.at(-1);
  return last === undefined || open === NONE ? groups : [...groups, sumOf(last, open)];
}

function sumOf(a: RatedMessages, b: RatedMessages): RatedMessages {
  return {
    finals: a.finals + b.finals,
    hardBounces: a.hardBounces + b.hardBounces,
    complaints: a.complaints + b.complaints,
  };
}
