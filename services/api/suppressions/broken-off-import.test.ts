import { expect, test } from 'vitest';
import { AppError } from '#core/domain/fault/app-error.ts';
import { brokenOffImport } from './broken-off-import.ts';

const away = new AppError('dependency_unavailable', { message: 'Away', retryAfter: 5 });

test('the error of an import that failed midway names the stored lines and those that may be', () => {
  const error = brokenOffImport(away, { from: 1, to: 1_000 }, { from: 1_001, to: 1_900 });
  expect(error).toMatchObject({ code: 'dependency_unavailable', retryAfter: 5, cause: away });
  expect(error.message).toBe(
    'Away. Of the import the right ones of the lines 1-1000 are stored, and those of 1001-1900 may be; send it again',
  );
  expect(error.details?.map(({ rule, message }) => [rule, message])).toEqual([
    ['stored', 'Stored: 1-1000'],
    ['unknown', 'May be stored: 1001-1900'],
    ['rest', 'All others are not stored'],
  ]);
});

test('the error of one that failed at its beginning names no stored line', () => {
  const { message, details } = brokenOffImport(away, undefined, { from: 2, to: 3 });
  expect(message).toBe(
    'Away. Of the import no line is known to be stored, and those of 2-3 may be; send it again',
  );
  expect(details?.map(({ rule }) => rule)).toEqual(['unknown', 'rest']);
});
