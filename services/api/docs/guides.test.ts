import { readdirSync } from 'node:fs';
import { expect, test } from 'vitest';
import { CHANNELS } from '#core/domain/channel.ts';
import { ERROR_CODES } from '#core/domain/app-error.ts';
import { FAILURE_CLASSES } from '#core/domain/failure.ts';
import { LIMIT_NAMES } from '#core/domain/plan.ts';
import { MESSAGE_STATES } from '#core/domain/message-state.ts';
import { USER_LIMIT } from '../auth/authenticate.ts';
import openApiDocument from '../openapi.json' with { type: 'json' };
import { EXAMPLE_LANGUAGES, OPERATION_EXAMPLES } from './examples.ts';
import { GUIDES, readGuides } from './guides.ts';

const text = readGuides('https://api.example.com');

test('every guide is shown, with all its examples', () => {
  const files = readdirSync(new URL('guides', import.meta.url));
  expect([...GUIDES].map((name) => `${name}.md`).toSorted()).toEqual(files.toSorted());
  expect(text).not.toContain('{{');
  expect(text).toContain('export DESPATCH_URL=https://api.example.com');
});

test('every example is shown in a guide, in all languages', () => {
  const files = readdirSync(new URL('examples', import.meta.url));
  const names = new Set(files.map((file) => file.replace(/\..*$/, '')));
  expect(files).toHaveLength(names.size * EXAMPLE_LANGUAGES.length);
  for (const { label } of EXAMPLE_LANGUAGES.slice(1)) {
    expect(text.split(`<summary>${label}</summary>`)).toHaveLength(names.size + 1);
  }
});

test('links within the page lead to a guide', () => {
  const slugs = [...text.matchAll(/^# (.+)$/gm)].map(([, title = '']) =>
    title.toLowerCase().replaceAll(' ', '-'),
  );
  const targets = [...text.matchAll(/\(#description\/([^)]+)\)/g)].map(([, target]) => target);
  expect(targets.length).toBeGreaterThan(0);
  for (const target of targets) expect(slugs).toContain(target);
});

test.each([
  ['channel', CHANNELS],
  ['failure class', FAILURE_CLASSES],
  // Nothing moves a message there yet.
  ['state', MESSAGE_STATES],
])('every %s is explained', (_kind, names) => {
  for (const name of names) expect(text).toContain(`\`${name}\``);
});

test('no guide names an error code or a limit that does not exist', () => {
  const known = new Set<string>([...ERROR_CODES, ...LIMIT_NAMES, USER_LIMIT.name]);
  const codes = [...text.matchAll(/(?:4\d\d|503)\*{0,2} `([a-z_]+)`/g)].map(([, code = '']) => code);
  const limits = [...text.matchAll(/`(\w+(?:PerDay|PerMinute|Max))`/g)].map(([, name = '']) => name);
  expect(codes.length).toBeGreaterThan(2);
  expect(limits.length).toBeGreaterThan(2);
  for (const name of [...codes, ...limits]) expect(known).toContain(name);
});

test('every example of an operation has its operation', () => {
  const operations = Object.values(openApiDocument.paths).flatMap((methods) =>
    Object.values(methods).map(({ operationId }) => operationId),
  );
  expect(Object.keys(OPERATION_EXAMPLES).length).toBeGreaterThan(0);
  for (const id of Object.keys(OPERATION_EXAMPLES)) expect(operations).toContain(id);
});
