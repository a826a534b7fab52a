import { expect, test } from 'vitest';
import type { ClaimedMessage } from '#core/store/claimed-message.ts';
import { createContents } from './contents.ts';

const claimed = (content: unknown, tenantId = 'a'): ClaimedMessage =>
  ({ id: 'm', tenantId, purgeOn: '2026-01-05', content }) as unknown as ClaimedMessage;

test('a content that came with its claim is returned without a load', async () => {
  const contents = createContents({
    store: { loadContent: () => Promise.reject(new Error('asked for nothing')) },
    bytesMax: 10,
    waitMsMax: 10,
  });
  expect(await contents.load(claimed({ body: 'a' }))).toMatchObject({
    kind: 'ready',
    content: { body: 'a' },
  });
});

test('contents beyond the memory limit wait and are loaded in order of arrival', async () => {
  let fetched = 0;
  const contents = createContents({
    store: { loadContent: () => Promise.resolve({ n: (fetched += 1) }) },
    bytesMax: 10,
    waitMsMax: 5_000,
  });
  const first = await contents.load(claimed({ storedBytes: 6 }));
  const second = contents.load(claimed({ storedBytes: 8 }, 'b'));
  const third = contents.load(claimed({ storedBytes: 2 }, 'c'));
  await new Promise(setImmediate);
  expect(fetched).toBe(1);
  if (first.kind === 'ready') first.release();
  expect([await second, await third]).toMatchObject([{ content: { n: 2 } }, { content: { n: 3 } }]);
});

test('a load that waits too long ends as unavailable and lets the next ones in', async () => {
  const contents = createContents({
    store: { loadContent: () => Promise.resolve({}) },
    bytesMax: 10,
    waitMsMax: 50,
  });
  await contents.load(claimed({ storedBytes: 6 }));
  const [large, small] = await Promise.all([
    contents.load(claimed({ storedBytes: 8 }, 'b')),
    contents.load(claimed({ storedBytes: 4 }, 'c')),
  ]);
  expect([large.kind, small.kind]).toEqual(['unavailable', 'ready']);
});

test('a load that finds nothing or fails frees its memory', async () => {
  const answers = [
    () => Promise.resolve(null),
    () => Promise.reject(new Error('away')),
    () => Promise.resolve({}),
  ];
  const contents = createContents({
    store: { loadContent: () => (answers.shift() as () => Promise<unknown>)() },
    bytesMax: 10,
    waitMsMax: 50,
  });
  const kinds: string[] = [];
  for (let i = 0; i < 3; i += 1) kinds.push((await contents.load(claimed({ storedBytes: 10 }))).kind);
  expect(kinds).toEqual(['gone', 'unavailable', 'ready']);
});

test('one tenant may hold half of the memory, or one content, and other tenants pass it', async () => {
  const contents = createContents({
    store: { loadContent: () => Promise.resolve({}) },
    bytesMax: 10,
    waitMsMax: 5_000,
  });
  const slow = await Promise.all([1, 2].map(() => contents.load(claimed({ storedBytes: 2 }))));
  let isIn = false;
  const next = contents.load(claimed({ storedBytes: 2 })).then(() => (isIn = true));
  const others = ['b', 'c'].map((tenant) => contents.load(claimed({ storedBytes: 3 }, tenant)));
  for (const loaded of await Promise.all(others)) if (loaded.kind === 'ready') loaded.release();
  expect(isIn).toBe(false);
  if (slow[0]?.kind === 'ready') slow[0].release();
  await next;
  expect((await contents.load(claimed({ storedBytes: 6 }, 'd'))).kind).toBe('ready');
});
