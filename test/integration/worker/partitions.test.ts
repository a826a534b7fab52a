import { describe, expect, test } from 'vitest';
import type { Maintained } from '#core/store/partitions.ts';
import { type MessageBench, setupMessages } from '#test/support/setup-messages.ts';

const NOTHING: Maintained = { made: 0, dropped: [], busy: [], failures: [] };

describe('retention', () => {
  test('a partition is dropped once its Monday has come, and partitions are created ahead', async () => {
    await using b = await setupMessages();
    await b.accept();
    const [clock] = await b.admin<{ monday: string }[]>`
      select date_trunc('week', now() at time zone 'UTC')::date as monday`;
    const name = await makeOldPartition(b, clock?.monday ?? '');
    expect(await b.store.maintain()).toEqual({ ...NOTHING, dropped: [name] });
    expect(await b.store.maintain()).toEqual(NOTHING);
    const [left] = await b.admin`select count(*) as n from despatch.messages`;
    expect(left?.['n']).toBe(1);
  });

  test('a partition that cannot be dropped does not prevent the drop of another one', async () => {
    await using b = await setupMessages();
    const [first, second] = [
      await makeOldPartition(b, '2020-01-06'),
      await makeOldPartition(b, '2020-01-13'),
    ];
    await b.admin.unsafe(`create view public.report as select id from despatch.${first}`);
    const error = expect.objectContaining({ message: expect.stringContaining(`cannot drop table ${first}`) });
    expect(await b.store.maintain()).toEqual({
      ...NOTHING,
      dropped: [second],
      failures: [{ what: first, error }],
    });
    const left = await b.admin`select relname from pg_class where relname in (${first}, ${second})`;
    expect(left.map(({ relname }) => relname as string)).toEqual([first]);
  });

  test('a long reader delays the drop of a partition, but not acceptance or new partitions', async () => {
    await using b = await setupMessages();
    const name = await makeOldPartition(b, '2020-01-06');
    const [last] = await b.admin<{ name: string }[]>`
      select max(relname) as name from pg_class where relname ~ '^attempt_log_[0-9]{8}$'`;
    await b.admin.unsafe(`drop table despatch.${last?.name}`);
    const [reading, finish] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const reader = b.admin.begin(async (tx) => {
      await tx`select count(*) from despatch.messages`;
      reading.resolve();
      await finish.promise;
    });
    await reading.promise;
    const maintained = b.store.maintain();
    // An acceptance waits no longer than the one second for which the drop waits for its lock.
    const slowest = await slowestAccept(b, maintained);
    expect(slowest).toBeLessThan(10_000);
    expect(await maintained).toEqual({ ...NOTHING, made: 1, busy: ['messages'] });
    finish.resolve();
    await reader;
    expect(await b.store.maintain()).toEqual({ ...NOTHING, dropped: [name] });
  });
});

async function makeOldPartition(b: MessageBench, monday: string): Promise<string> {
  const name = `messages_${monday.replaceAll('-', '')}`;
  await b.admin.unsafe(
    `create table despatch.${name} partition of despatch.messages for values from ('${monday}') to (date '${monday}' + 7)`,
  );
  await b.admin.unsafe(`alter table despatch.${name} owner to despatch_definer`);
  return name;
}

/** Accepts one message after the other until the work has ended. @returns the longest time in milliseconds. */
async function slowestAccept(b: MessageBench, work: Promise<unknown>): Promise<number> {
  const over = new AbortController();
  void work.finally(() => over.abort());
  let slowest = 0;
  while (!over.signal.aborted) {
    const started = performance.now();
    await b.accept();
    slowest = Math.max(slowest, performance.now() - started);
  }
  return slowest;
}
