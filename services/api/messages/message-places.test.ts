import { expect, test } from 'vitest';
import { AppError } from '#core/domain/fault/app-error.ts';
import { createIdLoader } from '#core/domain/storage/id-loader.ts';
import { createMessageIds } from '#core/domain/storage/message-id.ts';
import type { SeqBlock } from '#core/store/messages/message-places.ts';
import { createMessagePlaces } from './message-places.ts';

const SUNDAY_NIGHT = Date.parse('2026-02-01T23:59:50Z');
const KEY = Buffer.alloc(16);
const ids = createMessageIds(KEY);

function setup() {
  const clock = { now: 0, database: SUNDAY_NIGHT };
  /** Every requested reservation, in order; each one waits for its answer unless `isQuick`. */
  const asked: PromiseWithResolvers<SeqBlock>[] = [];
  const database = { isQuick: true, isAway: false };
  const answer = (n: number): void =>
    asked[n]?.resolve({ firstSeq: 1 + n * 1_024, now: new Date(clock.database + clock.now) });
  const places = createMessagePlaces({
    reserve: () => {
      const question = Promise.withResolvers<SeqBlock>();
      asked.push(question);
      if (database.isAway) question.reject(new Error('no answer'));
      else if (database.isQuick) answer(asked.length - 1);
      return question.promise;
    },
    loadIds: createIdLoader(() => Promise.resolve(KEY)),
    monotonicMs: () => clock.now,
  });
  const take = (days = 7) => places.take(days);
  const takeMany = async (n: number): Promise<number[]> => {
    const seqs: number[] = [];
    for (let i = 0; i < n; i += 1) seqs.push((await take()).seq);
    return seqs;
  };
  return { clock, asked, answer, database, places, take, takeMany };
}

test('each message gets a unique sequence number and an id that encodes its place', async () => {
  const { take, takeMany } = setup();
  const { id, ...place } = await take();
  expect(place).toEqual({ seq: 1, purgeOn: '2026-02-09' });
  expect(ids.decode(id)).toEqual(place);
  const seqs = await takeMany(3_000);
  expect(seqs).toEqual(Array.from({ length: 3_000 }, (_, n) => n + 2));
});

test('the next block is reserved once half of the current one is used', async () => {
  const { asked, answer, database, takeMany } = setup();
  await takeMany(1);
  database.isQuick = false;
  await takeMany(510);
  expect(asked).toHaveLength(1);
  await takeMany(513);
  expect(asked).toHaveLength(2);
  answer(1);
  expect(await takeMany(1)).toEqual([1_025]);
});

test('concurrent calls share one reservation per block', async () => {
  const { asked, answer, database, take } = setup();
  database.isQuick = false;
  const waiting = Array.from({ length: 1_500 }, () => take());
  await expect.poll(() => asked.length).toBe(1);
  answer(0);
  await expect.poll(() => asked.length).toBe(2);
  answer(1);
  const seqs = (await Promise.all(waiting)).map(({ seq }) => seq);
  expect(new Set(seqs).size).toBe(1_500);
  expect(asked).toHaveLength(2);
});

test('the purge day follows the database clock, also between reservations', async () => {
  const { clock, take, asked } = setup();
  expect((await take(7)).purgeOn).toBe('2026-02-09');
  clock.now = 10_001;
  expect((await take(7)).purgeOn).toBe('2026-02-16');
  expect(asked).toHaveLength(1);
});

test('a block older than 30 seconds is used only until its replacement arrives', async () => {
  const { clock, asked, answer, database, takeMany } = setup();
  await takeMany(1);
  database.isQuick = false;
  clock.now = 30_001;
  expect(await takeMany(2)).toEqual([2, 3]);
  expect(asked).toHaveLength(2);
  answer(1);
  expect(await takeMany(1)).toEqual([1_025]);
  expect(asked).toHaveLength(2);
});

test('a block that is ten minutes old is not used', async () => {
  const { clock, asked, database, takeMany, take } = setup();
  await takeMany(1);
  clock.now = 600_000;
  database.isAway = true;
  await expect(take()).rejects.toThrow(AppError);
  database.isAway = false;
  expect(await takeMany(1)).toEqual([1 + 2 * 1_024]);
  expect(asked).toHaveLength(3);
});

test('a failed reservation throws dependency_unavailable, and the next call reserves again', async () => {
  const { database, take } = setup();
  database.isAway = true;
  await expect(take()).rejects.toMatchObject({ code: 'dependency_unavailable', retryAfter: 5 });
  database.isAway = false;
  expect((await take()).seq).toBe(1_025);
});

test('a block that cannot be replaced in the background is used up', async () => {
  const { clock, database, takeMany } = setup();
  await takeMany(1);
  database.isAway = true;
  clock.now = 60_000;
  expect(await takeMany(1_023)).toHaveLength(1_023);
  await expect(takeMany(1)).rejects.toThrow(AppError);
});

test('drop() makes the next call read the database clock again', async () => {
  const { clock, places, take } = setup();
  await take();
  clock.database += 7 * 86_400_000;
  expect((await take(7)).purgeOn).toBe('2026-02-09');
  places.drop();
  expect((await take(7)).purgeOn).toBe('2026-02-16');
});

test('drop() forgets the next block too, which was reserved by the same clock', async () => {
  const { asked, places, take, takeMany } = setup();
  await takeMany(600);
  await expect.poll(() => asked.length).toBe(2);
  places.drop();
  expect((await take()).seq).toBe(2_049);
});

test('the key of the ids is loaded once, and again only after a failure', async () => {
  let calls = 0;
  const load = createIdLoader(() => {
    calls += 1;
    return calls === 1 ? Promise.reject(new Error('no answer')) : Promise.resolve(Buffer.alloc(16));
  });
  await expect(load()).rejects.toThrow('no answer');
  expect(await load()).toBe(await load());
  expect(calls).toBe(2);
});
