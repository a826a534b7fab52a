import { afterEach, beforeEach, expect, test } from 'vitest';
import {
  functionFile,
  functionFiles,
  functionsDigest,
  requiredSchemaVersion,
} from '#core/store/schema/migration-files.ts';
import { schemaReadiness } from '#core/store/schema/schema-readiness.ts';
import { setupStores } from '#test/support/setup-stores.ts';
import { migrate, type MigrateOptions } from '../../../services/migrate/migrate.ts';

let b: Awaited<ReturnType<typeof setupStores>>;
beforeEach(async () => void (b = await setupStores()));
afterEach(() => b[Symbol.asyncDispose]());

const OWN = functionFiles();
const DENIED = { code: '42501' };

/** Returns a function file whose function returns a number. */
const answer = (options: { name?: string; returns?: string; args?: string; to?: string } = {}) => {
  const { name = 'answer', returns = '1', args = '', to = 'despatch_api' } = options;
  const text = `create or replace function ${name}(${args}) returns integer language sql as $$ select ${returns} $$;
    grant execute on function ${name}(${args}) to ${to};`;
  return functionFile(name, text);
};

const run = (options: Partial<MigrateOptions>) =>
  migrate({ databaseUrl: b.urls.admin, passwords: {}, ...options });

const appliedAt = async (name: string): Promise<string | undefined> =>
  (
    await b.admin<{ at: string }[]>`select applied_at::text as at from applied_functions where name = ${name}`
  )[0]?.at;

test('a function is applied only if it is new or changed, and by only one of several runs', async () => {
  const first = await Promise.all([1, 2, 3].map(() => run({ functions: [...OWN, answer()] })));
  expect(first.flatMap(({ functions }) => functions)).toEqual(['answer']);
  expect(await b.api`select answer() as n`).toEqual([{ n: 1 }]);
  const before = await appliedAt('answer');

  expect(await run({ functions: [...OWN, answer()] })).toMatchObject({ functions: [] });
  expect(await appliedAt('answer')).toBe(before);

  expect(await run({ functions: [...OWN, answer({ returns: '2' })] })).toMatchObject({
    functions: ['answer'],
  });
  expect(await b.api`select answer() as n`).toEqual([{ n: 2 }]);
  expect(await appliedAt('answer')).not.toBe(before);
});

test('only the roles that its file grants may execute a function; earlier grants are revoked', async () => {
  await run({ functions: [...OWN, answer({ to: 'public' })] });
  expect(await b.worker`select answer() as n`).toEqual([{ n: 1 }]);
  await run({ functions: [...OWN, answer()] });
  expect(await b.api`select answer() as n`).toEqual([{ n: 1 }]);
  await expect(b.worker`select answer()`).rejects.toMatchObject(DENIED);
  await run({ functions: [...OWN, answer({ to: 'despatch_worker' })] });
  expect(await b.worker`select answer() as n`).toEqual([{ n: 1 }]);
  await expect(b.api`select answer()`).rejects.toMatchObject(DENIED);
});

test('a function that a migration creates is not executable without a grant', async () => {
  const sql = () => 'create function silent() returns integer language sql as $$ select 1 $$';
  await run({ migrations: [{ version: 9_999, name: '9999_test.sql', sql }] });
  for (const role of [b.api, b.worker]) await expect(role`select silent()`).rejects.toMatchObject(DENIED);
});

test('functions may call later ones, and a body that calls an unknown function is rejected', async () => {
  const [early, late] = [
    answer({ name: 'early', returns: 'late()' }),
    answer({ name: 'late', returns: '7' }),
  ];
  expect(await run({ functions: [...OWN, early, late] })).toMatchObject({ functions: ['early', 'late'] });
  const wrong = answer({ returns: 'nobody_made_this()' });
  await expect(run({ functions: [...OWN, early, late, wrong] })).rejects.toThrow(
    'functions/answer.sql: function nobody_made_this() does not exist',
  );
});

test('a broken function file is named in the error and leaves all functions unchanged', async () => {
  await run({ functions: [...OWN, answer()] });
  const changed = [answer({ returns: '2' }), functionFile('broken', 'create or replace function broken(')];
  await expect(run({ functions: [...OWN, ...changed] })).rejects.toThrow(
    'functions/broken.sql: syntax error',
  );
  expect(await b.api`select answer() as n`).toEqual([{ n: 1 }]);
  expect(await run({ functions: [...OWN, answer()] })).toMatchObject({ functions: [] });
});

test('functions of the previous release stay: old overloads, and functions without a file', async () => {
  await run({ functions: [...OWN, answer()] });
  const other = answer({ args: 'plus integer', returns: '1 + plus' });
  expect(await run({ functions: [...OWN, other] })).toMatchObject({ functions: ['answer'], unused: [] });
  expect(await b.api`select answer() as old, answer(1) as new`).toEqual([{ old: 1, new: 2 }]);

  const later = answer({ name: 'later' });
  expect(await run({ functions: [...OWN, later] })).toMatchObject({
    functions: ['later'],
    unused: ['answer'],
  });
  expect(await b.api`select answer() as old, answer(1) as new`).toEqual([{ old: 1, new: 2 }]);
});

test('a service is ready once its functions are applied, and stays ready after a newer release', async () => {
  const { migration } = requiredSchemaVersion();
  const [older, newer] = [
    [...OWN, answer()],
    [...OWN, answer({ returns: '2' })],
  ];
  const readiness = (files: typeof OWN) =>
    schemaReadiness(b.api, { migration, functions: functionsDigest(files) }, () => undefined)();
  expect(await readiness(older)).toEqual({ failing: ['schema'] });
  await run({ functions: older });
  expect(await readiness(older)).toEqual({ failing: [] });
  expect(await readiness(newer)).toEqual({ failing: ['schema'] });
  await run({ functions: newer });
  expect([await readiness(older), await readiness(newer)]).toEqual([{ failing: [] }, { failing: [] }]);
});

test('a rollback to an older release keeps the newer functions and reports it', async () => {
  const { migration } = requiredSchemaVersion();
  const [older, newer] = [
    [...OWN, answer(), answer({ name: 'dropped' })],
    [...OWN, answer({ returns: '2' })],
  ];
  await run({ functions: older });
  expect(await run({ functions: newer })).toMatchObject({ functions: ['answer'], isNewerKept: false });
  expect(await run({ functions: newer })).toMatchObject({ functions: [], isNewerKept: false });

  expect(await run({ functions: older })).toMatchObject({ functions: [], unused: [], isNewerKept: true });
  expect(await b.api`select answer() as n`).toEqual([{ n: 2 }]);
  const readiness = (files: typeof OWN) =>
    schemaReadiness(b.api, { migration, functions: functionsDigest(files) }, () => undefined)();
  expect([await readiness(older), await readiness(newer)]).toEqual([{ failing: [] }, { failing: [] }]);

  const repaired = [...OWN, answer({ returns: '3' })];
  expect(await run({ functions: repaired })).toMatchObject({ functions: ['answer'], isNewerKept: false });
  expect(await b.api`select answer() as n`).toEqual([{ n: 3 }]);
});

test('a release of a higher version has its own functions, also after a lower one that was first applied later', async () => {
  const { migration } = requiredSchemaVersion();
  const releases = {
    '1.0.0': [...OWN, answer()],
    '1.1.0': [...OWN, answer({ returns: '11' }), answer({ name: 'interim', returns: '5' })],
    '1.2.0-rc.1': [...OWN, answer({ returns: '12' })],
    '1.2.0': [...OWN, answer({ returns: '20' })],
    '1.10.0': [...OWN, answer()],
  };
  const deploy = async (version: keyof typeof releases) => {
    const functions = releases[version];
    const { isNewerKept } = await run({ functions, version });
    const needed = { migration, functions: functionsDigest(functions) };
    expect(await schemaReadiness(b.api, needed, () => undefined)()).toEqual({ failing: [] });
    const [row] = await b.api`select answer() as n`;
    return [isNewerKept, row?.['n']];
  };
  expect(await deploy('1.0.0')).toEqual([false, 1]);
  expect(await deploy('1.2.0')).toEqual([false, 20]);

  expect(await deploy('1.1.0'), 'skipped before').toEqual([true, 20]);
  expect(await b.api`select interim() as n`, 'only the skipped release has it').toEqual([{ n: 5 }]);
  await expect(b.worker`select interim()`).rejects.toMatchObject(DENIED);
  expect(await deploy('1.2.0-rc.1')).toEqual([true, 20]);
  expect(await deploy('1.2.0')).toEqual([false, 20]);

  expect(await deploy('1.10.0'), 'with the functions of 1.0.0').toEqual([false, 1]);
  expect(await deploy('1.2.0')).toEqual([true, 1]);
  expect(await deploy('1.0.0')).toEqual([false, 1]);
});

test('a release that was skipped adds its overload of a function that a newer release has as well', async () => {
  const [first, skipped, last] = [
    { version: '1.0.0', functions: [...OWN, answer()] },
    {
      version: '1.1.0',
      functions: [...OWN, answer({ args: 'plus integer', returns: '1 + plus' }), answer({ name: 'other' })],
    },
    {
      version: '1.2.0',
      functions: [
        ...OWN,
        answer({ args: 'plus integer, times integer', returns: '(1 + plus) * times' }),
        answer({ name: 'other', returns: '2' }),
      ],
    },
  ] as const;
  await run(first);
  await run(last);
  const appliedLast = await appliedAt('answer');
  expect(await run(skipped)).toMatchObject({ functions: ['answer'], isNewerKept: true });
  expect(await b.api`select answer() as a, answer(1) as b, answer(1, 2) as c, other() as d`).toEqual([
    { a: 1, b: 2, c: 4, d: 2 },
  ]);
  await expect(b.worker`select answer(1)`).rejects.toMatchObject(DENIED);
  expect(await appliedAt('answer')).toBe(appliedLast);
  for (const release of [skipped, last]) expect(await run(release)).toMatchObject({ functions: [] });
});

test('a skipped release leaves a function whose result or parameter names a newer one has changed', async () => {
  const text = (args: string, returns: string) =>
    functionFile(
      'answer',
      `create or replace function answer(${args}) returns ${returns} language sql as $$ select 1 $$`,
    );
  await run({ version: '1.2.0', functions: [...OWN, text('a integer', 'integer')] });
  for (const other of [text('b integer', 'integer'), text('a integer', 'bigint')])
    expect(await run({ version: '1.1.0', functions: [...OWN, other] })).toMatchObject({
      functions: [],
      isNewerKept: true,
    });
});

test('of two builds of one version, the functions of the one that was first applied later stay', async () => {
  const [first, second] = [
    [...OWN, answer()],
    [...OWN, answer({ returns: '2' })],
  ];
  for (const functions of [first, second]) await run({ functions, version: '1.0.0' });
  expect(await run({ functions: first, version: '1.0.0' })).toMatchObject({ isNewerKept: true });
  expect(await run({ functions: first, version: '1.0.1' })).toMatchObject({ functions: ['answer'] });
  expect(await run({ functions: second, version: '1.0.1' })).toMatchObject({ functions: ['answer'] });
  expect(await run({ functions: first, version: '1.0.1' })).toMatchObject({ isNewerKept: true });
  expect(await b.api`select answer() as n`).toEqual([{ n: 2 }]);
});

test('a build marked as the only one of a database replaces newer functions', async () => {
  const [older, newer] = [
    [...OWN, answer()],
    [...OWN, answer({ returns: '2' })],
  ];
  await run({ functions: older });
  await run({ functions: newer });
  const undone = { functions: ['answer'], isNewerKept: false };
  expect(await run({ functions: older, isOnlyBuild: true })).toMatchObject(undone);
  expect(await b.api`select answer() as n`).toEqual([{ n: 1 }]);

  expect(await run({ functions: newer }), 'the older build was applied last').toMatchObject({
    isNewerKept: true,
  });
  expect(await run({ functions: newer, isOnlyBuild: true })).toMatchObject(undone);
  expect(await b.api`select answer() as n`).toEqual([{ n: 2 }]);
});

test('a build older than the schema does not change the functions', async () => {
  const sql = () => 'create table later (id integer)';
  await run({ migrations: [{ version: 9_999, name: '9999_test.sql', sql }], functions: [...OWN, answer()] });
  expect(await run({ functions: [...OWN, answer({ returns: '2' })] })).toMatchObject({
    functions: [],
    unused: [],
    isNewerKept: true,
  });
  expect(await b.api`select answer() as n`).toEqual([{ n: 1 }]);
  expect(await schemaReadiness(b.api, requiredSchemaVersion(), () => undefined)()).toEqual({ failing: [] });
});
