import { expect, test } from 'vitest';
import { AppError } from '#core/domain/fault/app-error.ts';
import { DependencyError } from '#core/domain/fault/dependency-error.ts';
import { createFaultLog } from './fault-log.ts';

function setup() {
  let time = 0;
  const lines: object[] = [];
  const log = (error: unknown): void => failed({ route: '/' }, error);
  const failed = createFaultLog(
    { error: (fields: object | string) => void lines.push(Object(fields)) },
    () => time,
  );
  return { log, lines, pass: (ms: number) => (time += ms) };
}

const refused = (): Error => Object.assign(new Error('no'), { code: 'ECONNREFUSED' });

test('a fault of a dependency is logged once in five seconds, with the number of those left out', () => {
  const { log, lines, pass } = setup();
  for (let i = 0; i < 100; i += 1) log(refused());
  expect(lines).toEqual([{ route: '/', err: expect.any(Error) }]);
  pass(5_000);
  log(refused());
  log(refused());
  expect(lines.slice(1)).toEqual([{ route: '/', leftOut: 99, err: expect.any(Error) }]);
});

test('each dependency and each of its faults has lines of its own, also as the cause of another error', () => {
  const { log, lines } = setup();
  const late = new DependencyError('postgres', 'deadline', 'late');
  for (const error of [late, refused(), new DependencyError('vault', 'unavailable', 'sealed'), late])
    log(error);
  log(new AppError('dependency_unavailable', { cause: late }));
  expect(lines).toHaveLength(3);
});

test('every other error is logged', () => {
  const { log, lines } = setup();
  const wrong = Object.assign(new Error('no such column'), { name: 'PostgresError', code: '42703' });
  for (const error of [new Error('bug'), new Error('bug'), wrong, wrong, 'text', null]) log(error);
  expect(lines).toHaveLength(6);
});
