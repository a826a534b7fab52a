import { expect, test } from 'vitest';
import type { ApiClient } from './api-client.ts';
import { awaitFirstEvents, isTold } from './first-events.ts';
import type { ReceivedWebhook } from './webhook-receiver.ts';

const event = (id: string, type: string, messageId: string) => ({ id, type, data: { messageId } });
const VIEWER = { token: 'viewer', tenantSlug: 'acme' };
const MESSAGES = [
  { id: 'm-1', status: 'delivered' },
  { id: 'm-2', status: 'sent' },
];

function call(id: string, verified = true): ReceivedWebhook {
  const signature = verified
    ? ({ verified, endpointId: 'e', schemes: ['v1'] } as const)
    : ({ verified, reason: 'forged' } as const);
  const headers = { 'webhook-id': id };
  return { method: 'POST', path: '/', headers, body: '', at: 0, signature, repeated: false };
}

/** Answers with the given pages in order, and then always with the last one. */
function apiWith(...pages: readonly { items: object[]; nextCursor: string | null }[]) {
  const asked: string[] = [];
  const api: ApiClient = {
    ask: () => Promise.reject(new Error('not asked')),
    call: async <T>(_caller: unknown, _method: string, path: string) => {
      asked.push(path);
      return pages[Math.min(asked.length, pages.length) - 1] as T;
    },
  };
  return { api, asked };
}

const ALL = [
  event('a', 'message.queued', 'm-1'),
  event('x', 'message.queued', 'another'),
  event('b', 'message.queued', 'm-2'),
  event('c', 'message.sent', 'm-2'),
  event('d', 'message.delivered', 'm-1'),
];

test('waits until the feed has the event of the last status and the receiver has every event', async () => {
  const early = { items: ALL.slice(0, 4), nextCursor: null };
  const { api, asked } = apiWith(early, early, { items: ALL, nextCursor: null });
  let looks = 0;
  const received = () => ['a', 'b', 'c', ...(looks++ > 2 ? ['d'] : [])].map((id) => call(id));
  expect(await awaitFirstEvents(api, VIEWER, MESSAGES, new Date(0), received)).toEqual(
    new Map([
      ['m-1', { happened: 2, arrived: 2 }],
      ['m-2', { happened: 2, arrived: 2 }],
    ]),
  );
  expect(asked).toEqual(
    Array(3).fill('/v1/admin/events?type=message.*&limit=200&since=1970-01-01T00%3A00%3A00.000Z'),
  );
});

test('reads all pages of the feed', async () => {
  const { api, asked } = apiWith(
    { items: ALL.slice(0, 2), nextCursor: 'c+1' },
    { items: ALL.slice(2), nextCursor: null },
  );
  const received = () => ALL.map(({ id }) => call(id));
  await awaitFirstEvents(api, VIEWER, MESSAGES, new Date(0), received);
  expect(asked.map((path) => /&cursor=(.*)$/.exec(path)?.[1])).toEqual([undefined, 'c%2B1']);
});

test('a call without a valid signature does not count as received', async () => {
  const { api } = apiWith({ items: ALL, nextCursor: null });
  let looks = 0;
  const received = () => ALL.map(({ id }) => call(id, id !== 'd' || looks++ > 2));
  const arrivals = await awaitFirstEvents(api, VIEWER, MESSAGES, new Date(0), received);
  expect(looks).toBeGreaterThan(2);
  expect(isTold(arrivals.get('m-1'))).toBe(true);
});

test('a message is complete if it has events and all of them arrived', () => {
  expect(isTold({ happened: 2, arrived: 2 })).toBe(true);
  expect(isTold({ happened: 2, arrived: 1 })).toBe(false);
  expect(isTold({ happened: 0, arrived: 0 })).toBe(false);
  expect(isTold(undefined)).toBe(false);
});
