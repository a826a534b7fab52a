import { expect, test } from 'vitest';
import { prefersCsv } from './prefers-csv.ts';

test.each([
  ['text/csv'],
  ['Text/CSV; charset=utf-8'],
  ['text/csv, application/json'],
  ['text/csv, */*'],
  ['*/*, text/csv'],
  ['application/json;q=0.8, text/csv;q=0.9'],
  ['application/json;q=0.8,text/csv'],
  ['text/*, application/json;q=0.5'],
  ['text/csv;q=0.001'],
  ['text/csv;header=present;Q=1.0, application/json;q=0.9'],
])('Accept: %s prefers CSV', (accept) => {
  expect(prefersCsv(accept, 'application/json')).toBe(true);
});

test.each([
  [''],
  ['application/json'],
  ['application/json, text/csv'],
  ['text/csv;q=0, application/json'],
  ['text/csv;q=0'],
  ['text/csv; q=0, */*'],
  ['text/csv;q=0.1,application/json;q=0.9'],
  ['text/csv;charset=utf-8;q=0.1, */*'],
  ['text/html, application/xhtml+xml, application/xml;q=0.9, */*;q=0.8'],
  ['*/*'],
  ['text/csv;q=high, application/json'],
  ['text/csv-schema'],
])('Accept: %s does not prefer CSV', (accept) => {
  expect(prefersCsv(accept, 'application/json')).toBe(false);
});
