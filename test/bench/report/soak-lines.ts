import { soakPlan } from '../measure/soak-plan.ts';
import type { SoakSlice } from '../measure/soak-slice.ts';
import type { Soak } from '../measure/soak.ts';
import { ownUsOf } from '../measure/meter.ts';
import { sliceMedian, soakFigures } from './soak-figures.ts';
import { show, table } from './text.ts';

/** Rows of a table, each a part of the run's time. */
const PARTS = 12;
/** Tables that are shown, the largest first. */
const TABLES = 8;

export function soakLines(soak: Soak): string[] {
  const { slices, ratePerSecond = Number.NaN, soakMinutes, sharePercent, starts } = soak;
  const plan = soakPlan(soakMinutes);
  const minutesOf = (slice: number): string => show((slice * plan.sliceMs) / 60_000);
  const [from, until] = plan.snapshot;
  const of = `${sharePercent} % of ${soak.maximum ?? 'what the service keeps up with'}`;
  const restarts = starts > 1 ? ` The services were started ${starts} times.` : '';
  return [
    `${slices.length} of ${plan.slices} parts of ${plan.sliceMs / 1_000} s at ${show(ratePerSecond)} messages a second, ${of}. An old snapshot is held`,
    `open from minute ${minutesOf(from)} to minute ${minutesOf(until)}. Medians of the parts; taken ${soak.takenAt.slice(0, 10)}.${restarts}`,
    '',
    ...timeLines(soak, minutesOf),
    '',
    ...ratioLines(soak),
    '',
    ...tableLines(slices),
  ];
}

function timeLines({ slices }: Soak, minutesOf: (slice: number) => string): string[] {
  const size = Math.max(1, Math.ceil(slices.length / PARTS));
  const groups = Array.from({ length: Math.ceil(slices.length / size) }, (_, i) =>
    slices.slice(i * size, (i + 1) * size),
  );
  const names = Object.keys(slices[0]?.memory ?? {});
  const megabytes = (group: readonly SoakSlice[], name: string): string =>
    show(sliceMedian(group, (slice) => slice.memory[name]) / 2 ** 20);
  return table(
    [
      'to minute',
      'per second',
      '202 p99 ms',
      'call p50 ms',
      'call p99 ms',
      'µs',
      'dead rows',
      ...names.map((name) => `${name} MB`),
    ],
    groups.map((group, i) => [
      minutesOf(Math.min(slices.length, (i + 1) * size)) +
        (group.some((slice) => slice.isBesideSnapshot) ? ' *' : ''),
      show(sliceMedian(group, (slice) => slice.deliveredPerSecond)),
      ...['acceptP99Ms', 'deliverP50Ms', 'deliverP99Ms'].map((figure) =>
        show(sliceMedian(group, (slice) => slice.figures[figure])),
      ),
      show(sliceMedian(group, ({ cost }) => ownUsOf(cost))),
      show(sliceMedian(group, ({ tables }) => tables.reduce((sum, { deadRows }) => sum + deadRows, 0))),
      ...names.map((name) => megabytes(group, name)),
    ]),
  ).concat('', '`*`: the snapshot was open.');
}

function ratioLines(soak: Soak): string[] {
  const { throughput, deliverP99, sustained, memory } = soakFigures(soak);
  const minutes = show((soakPlan(soak.soakMinutes).window * soakPlan(soak.soakMinutes).sliceMs) / 60_000);
  return table(
    ['', ''],
    [
      [`messages per second, last ${minutes} minutes to first`, show(throughput, 'x')],
      [`call p99, first ${minutes} minutes to last`, show(deliverP99, 'x')],
      [
        `keeps up with ${show(soak.sustainedBefore ?? Number.NaN)} /s before and ${show(soak.sustainedAfter ?? Number.NaN)} /s after`,
        show(sustained, 'x'),
      ],
      ...Object.entries(memory).map(([name, ratio]) => [
        `memory of ${name}, last third to second third`,
        show(ratio, 'x'),
      ]),
    ],
  );
}

/** Shows the size at the end, and the maximum of dead rows. */
function tableLines(slices: readonly SoakSlice[]): string[] {
  const last = slices.at(-1)?.tables ?? [];
  const mostDead = (name: string): number =>
    Math.max(...slices.map(({ tables }) => tables.find((one) => one.name === name)?.deadRows ?? 0));
  return table(
    ['table', 'rows', 'dead', 'most dead', 'MB', 'autovacuums'],
    last
      .slice(0, TABLES)
      .map(({ name, liveRows, deadRows, bytes, vacuums }) => [
        name,
        liveRows.toLocaleString('en'),
        deadRows.toLocaleString('en'),
        mostDead(name).toLocaleString('en'),
        show(bytes / 2 ** 20),
        String(vacuums),
      ]),
  );
}
