import type { GrowthPoint, PlantedPoint } from '../measure/growth.ts';
import { GROWTH_PARTS, type Planted } from '../measure/growth-parts.ts';
import { growthMedian, growthRatio } from './growth-figures.ts';
import { show, showSpread, table } from './text.ts';

/** Compares each kind of planted rows with a database without them. */
export function plantedLines(points: readonly PlantedPoint[]): string[] {
  const columns = [
    ['accept', 'acceptP99Ms'],
    ['202 to provider', 'deliverP99Ms'],
    ['first page', 'listP99Ms'],
    ['µs a message', 'messageUs'],
  ] as const;
  const plain = points.find(({ planted }) => planted === 'nothing');
  if (plain === undefined) return [];
  return [
    'p99 in milliseconds, the processor time of a message, and each to the database with nothing beside its messages.',
    '',
    ...table(
      ['', ...columns.flatMap(([words]) => [words, 'to nothing'])],
      points.map((point) => [
        wordsOf(point.planted),
        ...columns.flatMap(([, figure]) => [
          show(growthMedian(point, figure)),
          showSpread(growthRatio([plain, point], figure), 'x'),
        ]),
      ]),
    ),
  ];
}

function wordsOf(planted: Planted): string {
  return planted === 'nothing' ? 'nothing else' : GROWTH_PARTS[planted];
}

export function growthLines(points: readonly GrowthPoint[], by: 'messages' | 'tenants'): string[] {
  if (points.length === 0) return [];
  const columns = [
    ['accept', 'acceptP99Ms'],
    ['202 to provider', 'deliverP99Ms'],
    ['GET by id', 'getP99Ms'],
    ['first page', 'listP99Ms'],
    ['deep page', 'deepP99Ms'],
  ] as const;
  const shed = points.flatMap(({ visits }) => visits).reduce((sum, { readsShed = 0 }) => sum + readsShed, 0);
  const firstLook = [
    ['GET by id', 'getFirstP99Ms'],
    ['first page', 'listFirstP99Ms'],
    ['deep page', 'deepFirstP99Ms'],
    ['its blocks: first page', 'listBlocks'],
    ['deep page', 'deepBlocks'],
    ['not in Postgres: first page', 'listBlocksRead'],
    ['deep page', 'deepBlocksRead'],
  ] as const;
  return [
    `p99 in milliseconds.${shed === 0 ? '' : ` Reads answered with 503: ${shed}; a dash where they were more than one in a hundred.`}`,
    '',
    ...table(
      [by, ...columns.map(([words]) => words)],
      [
        ...points.map((point) => [
          point[by].toLocaleString('en'),
          ...columns.map(([, figure]) => show(growthMedian(point, figure))),
        ]),
        ['largest to smallest', ...columns.map(([, figure]) => showSpread(growthRatio(points, figure), 'x'))],
      ],
    ),
    '',
    'The same reads at the first look, p99 in milliseconds, with the blocks of 8 kB that a page asks for and those of them',
    'that Postgres does not hold:',
    '',
    ...table(
      [by, ...firstLook.map(([words]) => words)],
      points.map((point) => [
        point[by].toLocaleString('en'),
        ...firstLook.map(([, figure]) => show(growthMedian(point, figure))),
      ]),
    ),
  ];
}
