import { expect, test } from 'vitest';
import { testDatabase } from '#test/support/servers.ts';

/** What an operator may set for all sessions of a database, and what ours have nevertheless. */
const SETTINGS = [
  { name: 'synchronous_commit', set: 'off', ours: 'on' },
  { name: 'default_transaction_isolation', set: 'serializable', ours: 'read committed' },
  { name: 'TimeZone', set: 'Asia/Kolkata', ours: 'UTC' },
  { name: 'DateStyle', set: 'German', ours: 'ISO, YMD' },
  { name: 'bytea_output', set: 'escape', ours: 'hex' },
];

test('settings of the database change neither the durability of commits nor what sessions read', async () => {
  await using database = await testDatabase();
  const admin = database.open('admin', 1);
  for (const { name, set } of SETTINGS)
    await admin.unsafe(`alter database ${database.name} set ${name} = '${set}'`);
  const sql = database.open('api', 1);
  const found = await sql<{ name: string; ours: string }[]>`
    select name, current_setting(name) as ours from unnest(${SETTINGS.map(({ name }) => name)}::text[]) as name`;
  expect(found).toEqual(SETTINGS.map(({ name, ours }) => ({ name, ours })));
});
