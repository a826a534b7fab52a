import { expect, test } from 'vitest';
import { namesTag } from './names-tag.ts';

test.each([
  ['"3"', '"3"', true],
  ['W/"3"', '"3"', true],
  ['"a"', 'W/"a"', true],
  ['"1" , W/"3"', '"3"', true],
  ['*', '"3"', true],
  ['"2"', '"3"', false],
  ['"1","2"', '"3"', false],
  ['"1,3"', '"3"', false],
  ['"1,*,2"', '"3"', false],
  ['"a,b"', '"a,b"', true],
  ['3', '"3"', false],
  ['', '"3"', false],
  [undefined, '"3"', false],
])('If-None-Match %s with the tag %s: %s', (header, etag, expected) => {
  expect(namesTag(header, etag)).toBe(expected);
});
