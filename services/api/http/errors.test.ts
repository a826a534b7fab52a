import { expect, test } from 'vitest';
import { AppError, type ErrorCode } from '#core/domain/fault/app-error.ts';
import { DependencyError } from '#core/domain/fault/dependency-error.ts';
import { QueueFullError } from '#core/platform/process/micro-batch.ts';
import { KeyringError } from '#core/platform/vault/keyring.ts';
import { toAppError } from './errors.ts';

const named = (name: string, code?: string): Error => Object.assign(new Error('failed'), { name, code });

test.each<[ErrorCode, string, Error]>([
  ['dependency_unavailable', 'a database that shuts down', named('PostgresError', '57P01')],
  ['dependency_unavailable', 'a database that refuses our password', named('PostgresError', '28P01')],
  ['dependency_unavailable', 'a database with a full disk', named('PostgresError', '53100')],
  ['dependency_unavailable', 'a lock that is not available', named('PostgresError', '55P03')],
  ['dependency_unavailable', 'a deadlock', named('PostgresError', '40P01')],
  ['dependency_unavailable', 'a connection that was closed', named('Error', 'CONNECTION_CLOSED')],
  [
    'dependency_unavailable',
    'a database call past its deadline',
    new DependencyError('postgres', 'deadline', 'late'),
  ],
  ['dependency_unavailable', 'a keyring that does not answer', new KeyringError('unavailable', 'no answer')],
  ['dependency_unavailable', 'a keyring that denies access', new KeyringError('refused', 'no')],
  ['dependency_unavailable', 'a full queue', new QueueFullError('many wait')],
  ['internal_error', 'a row that the database refuses', named('PostgresError', '54000')],
  ['internal_error', 'a table that is missing', named('PostgresError', '42P01')],
  ['internal_error', 'anything else', named('TypeError')],
  ['payload_too_large', 'a body that exceeds its limit', named('FastifyError', 'FST_ERR_CTP_BODY_TOO_LARGE')],
])('the answer is %s for %s', (code, _, error) => {
  const answer = toAppError(error);
  expect(answer.code).toBe(code);
  expect(answer.retryAfter).toBe(code === 'dependency_unavailable' ? 5 : undefined);
});

test('an AppError is returned unchanged', () => {
  const refusal = new AppError('slug_taken');
  expect(toAppError(refusal)).toBe(refusal);
});
