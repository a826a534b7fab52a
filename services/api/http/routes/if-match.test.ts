import { expect, test } from 'vitest';
import { assertMatches, assertNoneMatches, etagOf } from './if-match.ts';

test.each([
  [null, 3],
  ['*', 0],
  ['"3"', 3],
  [etagOf(0), 0],
  // As a proxy that compresses answers passes it on.
  ['W/"3"', 3],
  ['"2", "3"', 3],
  ['"3","4"', 3],
  ['"another", W/"3"', 3],
  ['"a,b"\t, ,"3",', 3],
])('If-Match %s matches version %d', (header, version) => {
  expect(() => assertMatches(header, version)).not.toThrow();
});

test.each([
  ['"2"', 'version_mismatch'],
  ['"03"', 'version_mismatch'],
  ['W/"2"', 'version_mismatch'],
  ['w/"3"', 'validation_failed'],
  ['3', 'validation_failed'],
  ['"2", "4"', 'version_mismatch'],
  ['"2,3"', 'version_mismatch'],
  // An entity tag, but of no version.
  ['"99999999999"', 'version_mismatch'],
  ['""', 'version_mismatch'],
  ['"3", *', 'validation_failed'],
  ['*, *', 'validation_failed'],
  ['"3" "4"', 'validation_failed'],
  ['"2", 3', 'validation_failed'],
  ['"3', 'validation_failed'],
  [',', 'validation_failed'],
  ['', 'validation_failed'],
])('If-Match %s does not match version 3: %s', (header, code) => {
  expect(() => assertMatches(header, 3)).toThrow(expect.objectContaining({ code }));
});

test.each([
  [null, 3],
  // Nobody has set the resource.
  ['*', 0],
  ['"2"', 3],
  ['"2", W/"4"', 3],
])('If-None-Match %s lets version %d change', (header, version) => {
  expect(() => assertNoneMatches(header, version)).not.toThrow();
});

test.each([
  ['*', 3],
  ['"3"', 3],
  ['"0"', 0],
  ['W/"3"', 3],
  ['"2", W/"3"', 3],
])('If-None-Match %s does not let version %d change', (header, version) => {
  expect(() => assertNoneMatches(header, version)).toThrow(
    expect.objectContaining({ code: 'version_mismatch' }),
  );
});
