import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ACCOUNT_MOVE_NAMES, ACCOUNT_MOVES } from '#core/domain/account/account-state.ts';
import { DELIVERY_MOVES } from '#core/domain/webhooks/delivery-state.ts';
import {
  ENDPOINT_MOVE_NAMES,
  ENDPOINT_MOVES,
  ENDPOINT_STATUSES,
} from '#core/domain/webhooks/endpoint-state.ts';
import { MESSAGE_MOVES } from '#core/domain/message/message-state.ts';
import { TENANT_MOVES } from '#core/domain/tenant/tenant-state.ts';
import { projectRoot } from './support/command.ts';

const architecture = readFileSync(join(projectRoot, 'services/ARCHITECTURE.md'), 'utf8');
const webhooksGuide = readFileSync(join(projectRoot, 'services/api/docs/guides/webhooks.md'), 'utf8');

test.each<[string, Record<string, readonly string[]>]>([
  ['a message', MESSAGE_MOVES],
  ['a delivery', DELIVERY_MOVES],
  ['a tenant', TENANT_MOVES],
])('the state diagram of %s matches its transition table', (what, table) => {
  const drawn = drawnMoves(architecture, `States of ${what}`);
  const tabled = Object.entries(table).flatMap(([from, moves]) => moves.map((to) => `${from} --> ${to}`));
  expect(drawn.toSorted()).toEqual(tabled.toSorted());
});

test('the state diagram of a webhook endpoint matches its transition table and names', () => {
  const tabled = ENDPOINT_MOVE_NAMES.flatMap((name) => {
    const { from, to } = ENDPOINT_MOVES[name];
    return from.map((one) => ({ move: `${one} --> ${to === 'same' ? one : to}`, name }));
  });
  const named = Map.groupBy(tabled, ({ move }) => move);
  expect(drawnMoves(architecture, 'States of a webhook endpoint', 'with names').toSorted()).toEqual(
    [...named].map(([move, of]) => `${move} : ${of.map(({ name }) => name).join(', ')}`).toSorted(),
  );
});

test('the state diagram of a provider account matches its transition table and names', () => {
  const tabled = ACCOUNT_MOVE_NAMES.flatMap((name) =>
    ACCOUNT_MOVES[name].from.map((from) => `${from} --> ${ACCOUNT_MOVES[name].to} : ${name}`),
  );
  expect(drawnMoves(architecture, 'States of a provider account', 'with names').toSorted()).toEqual(
    tabled.toSorted(),
  );
});

test('the documented transition table of a webhook endpoint matches the one in code', () => {
  const told = [
    ...architecture.matchAll(/^\| `([a-z_]+)` \| (tenant|worker) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$/gm),
  ];
  const rows = told.map(([, name, by, failures, calls, tells]) => [name, by, failures, calls, tells]);
  const words = { at_once: 'at once', put_off: 'put off', asked: 'as asked', kept: 'kept' };
  expect(rows).toEqual(
    ENDPOINT_MOVE_NAMES.map((name) => {
      const { by, failures, calls, tells } = ENDPOINT_MOVES[name];
      return [name, by, failures, words[calls], tells === null ? '–' : `\`${tells}\``];
    }),
  );
});

test('the webhooks guide documents every status of an endpoint', () => {
  const told =
    /\| `status` of an endpoint \| means \|\n\|---\|---\|\n((?:\|.*\n)+)/.exec(webhooksGuide)?.[1] ?? '';
  expect([...told.matchAll(/^\| `([a-z]+)`/gm)].map(([, status]) => status)).toEqual([...ENDPOINT_STATUSES]);
});

test('reads the transitions of a state diagram, and throws if a section has none', () => {
  const document = [
    '## A title',
    '```mermaid',
    'stateDiagram-v2',
    '  [*] --> a',
    '  a --> b',
    '  a-->c : why',
    '```',
    'x --> y',
    '## Another one',
    'no drawing',
  ].join('\n');
  expect(drawnMoves(document, 'A title')).toEqual(['a --> b', 'a --> c']);
  expect(drawnMoves(document, 'A title', 'with names')).toEqual(['a --> b', 'a --> c : why']);
  expect(() => drawnMoves(document, 'Another one')).toThrow('no state diagram');
  expect(() => drawnMoves(document, 'None')).toThrow('no state diagram');
});

/** Returns the moves of the mermaid state diagram below a title; those from and to `[*]` mark only start and end. */
function drawnMoves(markdown: string, title: string, names?: 'with names'): string[] {
  const section = markdown.split(/^## /m).find((text) => text.startsWith(`${title}\n`)) ?? '';
  const diagram = /```mermaid\s+stateDiagram-v2\n(.*?)```/s.exec(section)?.[1];
  if (diagram === undefined) throw new Error(`there is no state diagram of '${title}'`);
  return [...diagram.matchAll(/^\s*([a-z_]+)\s*-->\s*([a-z_]+)(?:\s*:\s*(.*\S))?/gm)].map(
    ([, from, to, name]) =>
      names === undefined || name === undefined ? `${from} --> ${to}` : `${from} --> ${to} : ${name}`,
  );
}
