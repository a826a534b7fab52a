import { expect, test } from 'vitest';
import type { RateTaken } from '#core/store/tenants/directory.ts';
import { createCallCounter } from './call-counter.ts';

/** A counter of a minute in which nothing is freed; statements end when the test says so. */
function setup(limit: number) {
  const statements: { subject: string; calls: number; end: (error?: Error) => void }[] = [];
  const counted = new Map<string, number>();
  const count = createCallCounter({
    takeRate: (subject, allowed, calls) =>
      new Promise<RateTaken>((resolve, reject) => {
        const before = counted.get(subject) ?? 0;
        const passed = Math.min(calls, allowed - before);
        counted.set(subject, before + passed);
        const taken = { passed, remaining: allowed - before - passed, retryAfter: 30 };
        statements.push({
          subject,
          calls,
          end: (error) => (error === undefined ? resolve(taken) : reject(error)),
        });
      }),
  });
  return { statements, call: (subject: string) => count(subject, limit) };
}

test("calls that arrive during a subject's statement are counted together by the next one", async () => {
  const b = setup(4);
  const first = b.call('a');
  const others = [b.call('a'), b.call('a'), b.call('b'), b.call('a'), b.call('a')];
  expect(b.statements.map(({ subject, calls }) => [subject, calls])).toEqual([
    ['a', 1],
    ['b', 1],
  ]);
  for (const { end } of b.statements) end();
  expect(await first).toEqual({ passed: true, remaining: 3, retryAfter: 30 });
  await expect.poll(() => b.statements.length).toBe(3);
  expect(b.statements[2]).toMatchObject({ subject: 'a', calls: 4 });
  b.statements[2]?.end();
  const verdicts = await Promise.all(others);
  expect(verdicts.map(({ passed, remaining }) => [passed, remaining])).toEqual([
    [true, 2],
    [true, 1],
    [true, 3],
    [true, 0],
    [false, 0],
  ]);
});

test('calls after a refusal are refused without a statement', async () => {
  const b = setup(0);
  const first = b.call('a');
  b.statements[0]?.end();
  expect(await first).toMatchObject({ passed: false });
  const refused = await Promise.all(Array.from({ length: 1_000 }, () => b.call('a')));
  expect(refused.every(({ passed, retryAfter }) => !passed && retryAfter > 0)).toBe(true);
  expect(b.statements.length).toBe(1);
});

test('a failed statement rejects only the calls that it counted', async () => {
  const b = setup(5);
  const first = b.call('a');
  const second = b.call('a');
  b.statements[0]?.end(new Error('gone'));
  await expect(first).rejects.toThrow('gone');
  await expect.poll(() => b.statements.length).toBe(2);
  b.statements[1]?.end();
  expect(await second).toMatchObject({ passed: true });
});
