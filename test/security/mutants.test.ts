import { beforeAll, describe, expect, test } from 'vitest';
import { plantMutants } from '#test/support/mutant-tree.ts';
import { runVitest, type VitestRun } from '#test/support/run-vitest.ts';
import { GROUPS, type Attack } from './mutants.ts';

/** One run starts its own servers, beside the other files of a whole run and on slow machines. Its tests have their own limits. */
const RUN_MS_MAX = 600_000;

const escape = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);

async function run(attacks: readonly Attack[], root: string): Promise<VitestRun> {
  const project = attacks[0]?.project ?? 'unit';
  expect(attacks.every((attack) => attack.project === project)).toBe(true);
  return runVitest(project, {
    filters: [...new Set(attacks.map(({ suite }) => suite))],
    names: attacks.map(({ test: name }) => escape(name)).join('|'),
    show: false,
    root,
  });
}

describe.each(GROUPS)('with protections removed', (...attacks) => {
  let found: VitestRun;
  beforeAll(async () => {
    await using tree = await plantMutants(attacks);
    found = await run(attacks, tree.root);
  }, RUN_MS_MAX);

  test.each(attacks)('$name: its test fails', ({ test: name }) => {
    const isNoticed = found.failed.some((failed) => failed.includes(name));
    expect([isNoticed, found.output]).toEqual([true, found.output]);
  });
});

test.each(['unit', 'integration'] as const)(
  'with all protections in place the same tests pass (%s)',
  { timeout: RUN_MS_MAX },
  async (project) => {
    const attacks = GROUPS.flat().filter((attack) => attack.project === project);
    await using tree = await plantMutants([]);
    const { tally, output } = await run(attacks, tree.root);
    expect([tally.failed, output]).toEqual([0, output]);
    expect(tally.passed).toBeGreaterThanOrEqual(attacks.length);
  },
);
