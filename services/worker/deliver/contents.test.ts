import { expect, test } from 'vitest';
import type { ClaimedMessage } from '#core/store/deliveries.ts';
import { createContents } from './contents.ts';

const claimed = (content: unknown): ClaimedMessage =>
  ({ id: 'm', purgeOn: '2026-01-05', content }) as unknown as ClaimedMessage;

test('a content that came with its claim is there at once', async () => {
  const contents = createContents({
    store: { loadContent: () => Promise.reject(new Error('asked for nothing')) },
    bytesMax: 10,
    patienceMs: 10,
  });
  expect(await contents.load(claimed({ body: 'a' }))).toMatchObject({
    kind: 'ready',
    content: { body: 'a' },
  });
});

test('no more is fetched than there is room for, in the order of coming', async () => {
  let fetched = 0;
  const contents = createContents({
    store: { loadContent: () => Promise.resolve({ n: (fetched += 1) }) },
    bytesMax: 10,
    patienceMs: 5_000,
  });
  const first = await contents.load(claimed({ storedBytes: 6 }));
  const second = contents.load(claimed({ storedBytes: 8 }));
  const third = contents.load(claimed({ storedBytes: 2 }));
  await new Promise(setImmediate);
  expect(fetched).toBe(1);
  if (first.kind === 'ready') first.release();
  expect([await second, await third]).toMatchObject([{ content: { n: 2 } }, { content: { n: 3 } }]);
});

test('who waits too long goes away, and lets the others in', async () => {
  const contents = createContents({
    store: { loadContent: () => Promise.resolve({}) },
    bytesMax: 10,
    patienceMs: 50,
  });
  await contents.load(claimed({ storedBytes: 6 }));
  const [large, small] = await Promise.all([
    contents.load(claimed({ storedBytes: 8 })),
    contents.load(claimed({ storedBytes: 4 })),
  ]);
  expect([large.kind, small.kind]).toEqual(['unavailable', 'ready']);
});

test('what is gone, or cannot be asked for, gives its room back', async () => {
  const answers = [
    () => Promise.resolve(null),
    () => Promise.reject(new Error('away')),
    () => Promise.resolve({}),
  ];
  const contents = createContents({
    store: { loadContent: () => (answers.shift() as () => Promise<unknown>)() },
    bytesMax: 10,
    patienceMs: 50,
  });
  const kinds: string[] = [];
  for (let i = 0; i < 3; i += 1) kinds.push((await contents.load(claimed({ storedBytes: 10 }))).kind);
  expect(kinds).toEqual(['gone', 'unavailable', 'ready']);
});
