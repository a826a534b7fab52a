import { parseArgs } from 'node:util';

export type EndToEndOptions = {
  /** The items to run, in order. */
  readonly items: readonly number[];
  /** Messages per second of the load. */
  readonly rate: number;
  readonly seed: number;
  /** Keeps everything at the end, for inspection. */
  readonly keeps: boolean;
  /** Removes nothing at the end, because the cluster itself is deleted. */
  readonly leaves: boolean;
  /** Uses the images that an earlier run loaded. */
  readonly reusesImages: boolean;
};

const ITEM_NUMBERS = [1, 2, 3, 4, 5, 6] as const;

export const HELP = `npm run test:e2e [-- options]

Builds the image, installs the chart into a real cluster and proves from outside that it does what it says. The cluster
comes from the environment; see test/e2e/README.md.

  --items 1,2,3  items to run (all)
  --rate R       messages a second of the load (40)
  --seed S       chooses the same victims again (random, printed)
  --reuse-image  uses the images of an earlier run
  --leave        removes nothing in the end: for a cluster that goes away itself
  --keep         leaves releases and servers running in the end, until Ctrl-C
  --help         this text

Exit code 1 on any failure; pods, events and logs are then in the folder that is printed.
`;

/** Parses the command line. @throws TypeError with a sentence for the user. */
export function parseOptions(args: readonly string[]): EndToEndOptions | 'help' {
  const { values } = parseArgs({
    args: [...args],
    options: {
      items: { type: 'string', default: ITEM_NUMBERS.join() },
      rate: { type: 'string', default: '40' },
      seed: { type: 'string' },
      keep: { type: 'boolean', default: false },
      leave: { type: 'boolean', default: false },
      'reuse-image': { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return 'help';
  return {
    items: [...new Set(values.items.split(',').map((item) => whole('items', item.trim(), 1, 6)))].toSorted(
      (a, b) => a - b,
    ),
    rate: whole('rate', values.rate, 1, 1_000),
    seed:
      values.seed === undefined
        ? Math.floor(Math.random() * 2 ** 32)
        : whole('seed', values.seed, 0, 2 ** 32 - 1),
    keeps: values.keep,
    leaves: values.leave,
    reusesImages: values['reuse-image'],
  };
}

function whole(name: string, value: string, min: number, max: number): number {
  const number = Number(value);
  if (/^\d+$/.test(value) && number >= min && number <= max) return number;
  throw new TypeError(`--${name} must be a whole number from ${min} to ${max}`);
}
