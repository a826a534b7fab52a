import { expect, test } from 'vitest';
import { createLogger } from '#core/platform/telemetry/logger.ts';
import { findDeletions } from './find-deletions.ts';

/** A search over these slugs that ends when `isEnough` is true after a poll. */
async function search(
  slugs: readonly string[],
  isEnough: (looks: number) => boolean,
  failing: readonly number[] = [],
): Promise<{ readonly found: string[]; readonly asked: [string | null, number][]; readonly lines: string }> {
  const found: string[] = [];
  const asked: [string | null, number][] = [];
  const lines: string[] = [];
  const end = new AbortController();
  const destination = { write: (line: string) => void lines.push(line) };
  await findDeletions(
    {
      store: {
        async tenantsToPurge(after, most) {
          asked.push([after, most]);
          if (isEnough(asked.length)) end.abort();
          if (failing.includes(asked.length)) throw new Error('away');
          return slugs.filter((slug) => after === null || slug > after).slice(0, most);
        },
      },
      found: (slug) => void found.push(slug),
      log: createLogger({ level: 'info', component: 'test', destination }),
      everyMs: 1,
    },
    end.signal,
  );
  return { found, asked, lines: lines.join('') };
}

const many = Array.from({ length: 250 }, (_, n) => `t${String(n).padStart(3, '0')}`);

test('finds all deleted tenants in bounded pages, and starts over', async () => {
  const { found, asked } = await search(many, (looks) => looks === 4);
  expect(asked).toEqual([
    [null, 100],
    ['t099', 100],
    ['t199', 100],
    [null, 100],
  ]);
  expect(found).toEqual([...many, ...many.slice(0, 100)]);
});

test('a failed query is logged and repeated from the same cursor', async () => {
  const { asked, found, lines } = await search(many, (looks) => looks === 3, [2]);
  expect(asked.map(([after]) => after)).toEqual([null, 't099', 't099']);
  expect(found).toEqual(many.slice(0, 200));
  expect(lines).toContain('Could not look for deleted tenants');
});

test('makes no query if the signal is already aborted', async () => {
  let looks = 0;
  const store = {
    async tenantsToPurge() {
      looks += 1;
      return [];
    },
  };
  const log = createLogger({ level: 'info', component: 'test', destination: { write: () => undefined } });
  await findDeletions({ store, found: () => undefined, log }, AbortSignal.abort());
  expect(looks).toBe(0);
});
