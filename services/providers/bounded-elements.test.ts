import { expect, test } from 'vitest';
import { z } from 'zod';
import { boundedList, boundedObjects, ELEMENTS_MAX, firstOfList } from './bounded-elements.ts';
import type { ReceiptCall } from './receipt.ts';
import { findProvider, receiptsOf } from './registry.ts';

/** Accepts anything and counts how many values it was given. */
function counted() {
  const seen: unknown[] = [];
  return { seen, schema: z.unknown().refine((value) => seen.push(value) > 0) };
}

test('elements of several lists share one limit, and only objects are returned', () => {
  expect(
    boundedObjects(
      [
        [{ a: 1 }, 0, null, []],
        ['x', { b: 2 }],
      ],
      6,
    ),
  ).toEqual([{ a: 1 }, { b: 2 }]);
  expect(
    boundedObjects(
      [
        [{ a: 1 }, 0, null, []],
        ['x', { b: 2 }],
      ],
      5,
    ),
  ).toBeUndefined();
});

test('a list that is too long is rejected before its elements are validated', () => {
  const { seen, schema } = counted();
  expect(boundedList(schema, 2).safeParse([1, 2]).data).toEqual([1, 2]);
  expect(boundedList(schema, 2).safeParse([1, 2, 3]).success).toBe(false);
  expect(seen).toEqual([1, 2]);
});

test('firstOfList() validates only the first element', () => {
  const { seen, schema } = counted();
  expect(firstOfList(schema).safeParse([1, 2, 3]).data).toEqual([1]);
  expect(firstOfList(schema).safeParse([]).data).toEqual([]);
  expect(firstOfList(schema).safeParse('1').success).toBe(false);
  expect(seen).toEqual([1]);
});

const change = (statuses: string): string => `{"field":"messages","value":{"statuses":[${statuses}]}}`;
const meta = (entries: string): string => `{"object":"whatsapp_business_account","entry":[${entries}]}`;
/** Bodies with the given elements in one of the lists of a provider's calls. */
const BATCHES: readonly (readonly [provider: string, list: string, body: (elements: string) => string])[] = [
  ['sendgrid', 'events', (elements) => `[${elements}]`],
  ['infobip', 'results', (elements) => `{"results":[${elements}]}`],
  ['infobip-whatsapp', 'results', (elements) => `{"results":[${elements}]}`],
  ['whatsapp-cloud', 'changes', (elements) => meta(`{"changes":[${elements}]}`)],
  ['whatsapp-cloud', 'statuses', (elements) => meta(`{"changes":[${change(elements)}]}`)],
  [
    'whatsapp-cloud',
    'statuses of several changes',
    (elements) => meta(`{"changes":[${change(elements)}]},{"changes":[${change('0')}]}`),
  ],
];

function parsed(provider: string, body: string) {
  const call: ReceiptCall = {
    method: 'POST',
    url: 'https://hooks.example/v1/receipts/a/b',
    headers: {},
    body: Buffer.from(body),
    receivedAt: 0,
  };
  return receiptsOf(findProvider(provider))?.parse(call);
}

test.each(BATCHES)(
  'a call of %s with too many %s is unreadable, whatever the elements',
  (provider, list, bodyOf) => {
    const ofSeveral = list.includes('several') ? 1 : 0;
    for (const element of ['0', '{}', '[]', 'null']) {
      const elements = (length: number): string => Array<string>(length).fill(element).join(',');
      expect(parsed(provider, bodyOf(elements(ELEMENTS_MAX - ofSeveral)))).toEqual({
        kind: 'receipts',
        receipts: [],
      });
      expect(parsed(provider, bodyOf(elements(ELEMENTS_MAX + 1 - ofSeveral)))).toEqual({
        kind: 'unreadable',
      });
    }
  },
);

test('a report with many errors uses the first error', () => {
  const errors = (more: number): string => `[{"code":131026}${',0'.repeat(more)}]`;
  const status = `{"id":"wamid.1","status":"failed","errors":${errors(ELEMENTS_MAX)}}`;
  expect(parsed('whatsapp-cloud', meta(`{"changes":[${change(status)}]}`))).toMatchObject({
    kind: 'receipts',
    receipts: [{ failure: { providerCode: '131026' } }],
  });
});

test('a SendGrid call of 4 MiB is parsed in full', () => {
  const event = { event: 'delivered', sg_event_id: 'e', sg_message_id: 'm', response: '250 OK'.padEnd(210) };
  const text = JSON.stringify(event);
  const length = Math.floor((4 * 1024 * 1024) / (text.length + 1));
  expect(text.length).toBeLessThan(300);
  expect(parsed('sendgrid', `[${Array(length).fill(text).join(',')}]`)).toMatchObject({
    kind: 'receipts',
    receipts: { length },
  });
});
