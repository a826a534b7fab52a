import { expect, test } from 'vitest';
import { main } from './replay-audit.ts';

/** Nothing listens there: whoever connects fails. */
const env = { DATABASE_URL: 'postgres://127.0.0.1:1/none' };

test.each([
  ['a month that does not exist', '2026-13-01T00:00:00Z'],
  ['a day that does not exist', '2026-02-30T00:00:00Z'],
  ['a word', 'yesterday'],
  ['nothing', ''],
  ['a time without a zone', '2026-03-01T09:30:00'],
  ['a date without a time', '2026-03-01'],
])('%s after --since is refused before anything is read', async (_name, since) => {
  let text = '';
  const code = await main(['--since', since, '/dev/null'], env, (part) => void (text += part));
  expect({ code, text }).toEqual({
    code: 2,
    text: `--since ${since} is not a time with a zone, such as 2026-03-01T09:30:00Z\n`,
  });
});

test.each(['2026-03-01T09:30:00Z', '2026-03-01T10:30:00.123+01:00'])(
  'the time %s is accepted',
  async (since) => {
    const run = main(['--since', since, '/dev/null'], env, () => undefined);
    await expect(run).rejects.toThrow('ECONNREFUSED');
  },
);
