import { expect, test } from 'vitest';
import { countNames, repeatedName } from './repeated-name.ts';

test.each([
  ['{}', 0],
  ['[]', 0],
  ['"a:b"', 0],
  ['{"a":1}', 1],
  ['{"a":":","b":{"c":[{"d":1},{"d":2}]}}', 5],
  // A quote and a backslash that are escaped end no string.
  [String.raw`{"a\"":"\\","b\\":"\":\""}`, 2],
  ['{"a":1,"a":2}', 2],
])('%s has %d names', (json, names) => {
  expect(countNames(json)).toBe(names);
});

test.each<[string, (string | number)[] | undefined]>([
  ['{"a":1,"b":{"a":[{"a":2},{"a":"a"}]}}', undefined],
  ['{"a":1,"a":1}', ['a']],
  ['{"a":{"b":[0,{"c":1,"d":2,"c":3}]}}', ['a', 'b', 1, 'c']],
  // Two ways to write one name.
  [String.raw`{"to":1,"\u0074o":2}`, ['to']],
  ['{"constructor":1,"x":[],"constructor":2}', ['constructor']],
  ['{"a":[[{"b":1}],{"b":1,"b":2}],"b":1}', ['a', 1, 'b']],
])('%s repeats the name at %j', (json, place) => {
  expect(repeatedName(json)).toEqual(place);
});
