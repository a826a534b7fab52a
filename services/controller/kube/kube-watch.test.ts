import { expect, test } from 'vitest';
import {
  call,
  failure,
  ONE,
  refuse,
  stage,
  TENANTS,
  type Answer,
  type Call,
} from '#test/support/scripted-kube.ts';
import { KubeError } from './kube-error.ts';
import type { KubeObject, KubeWatchEvent } from './kube-object.ts';

const shop = { metadata: { ...ONE, uid: 'uid-1', resourceVersion: '9' }, note: 'Grüße 📨' };
const line = (type: string, object: object): string => `${JSON.stringify({ type, object })}\n`;

/** Runs a watch to its end and returns its events and its failure. */
async function watched(
  answer: Answer,
): Promise<{ events: KubeWatchEvent<KubeObject>[]; error: unknown; call: Call | undefined }> {
  await using parts = await stage(answer);
  const events: KubeWatchEvent<KubeObject>[] = [];
  const error: unknown = await parts.kube
    .watch(TENANTS, {
      ...call(),
      resourceVersion: '7',
      namespace: 'acme',
      onEvent: (event) => events.push(event),
    })
    .then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
  return { events, error, call: parts.calls[0] };
}

test('a watch requests bookmarks and a timeout, and parses events split at any byte', async () => {
  const bytes = Buffer.from(
    line('ADDED', shop) + line('BOOKMARK', { metadata: { resourceVersion: '12' } }) + line('DELETED', shop),
  );
  const {
    events,
    error,
    call: asked,
  } = await watched((response) => {
    response.writeHead(200);
    const next = (at: number): void => {
      if (at >= bytes.length) return void response.end();
      response.write(bytes.subarray(at, at + 7));
      setImmediate(next, at + 7);
    };
    next(0);
  });
  expect(error).toBeUndefined();
  expect(events).toEqual([
    { type: 'ADDED', object: shop },
    { type: 'BOOKMARK', resourceVersion: '12' },
    { type: 'DELETED', object: shop },
  ]);
  expect(asked?.query).toMatchObject({ watch: 'true', allowWatchBookmarks: 'true', resourceVersion: '7' });
  const seconds = Number(asked?.query['timeoutSeconds']);
  expect(seconds).toBeGreaterThanOrEqual(270);
  expect(seconds).toBeLessThanOrEqual(330);
});

test.each<[string, Answer, Partial<KubeError>, number]>([
  ['starts at an expired version', refuse(410, 'Expired'), { code: 410, reason: 'Expired' }, 0],
  [
    'expires during the stream',
    (response) => void response.end(line('ADDED', shop) + line('ERROR', { code: 410, reason: 'Expired' })),
    { code: 410, reason: 'Expired' },
    1,
  ],
  [
    'loses its connection',
    (response) => void response.writeHead(200).write(line('ADDED', shop), () => response.destroy()),
    { code: 0, reason: 'Network' },
    1,
  ],
  [
    'ends in the middle of an event',
    (response) => void response.end(line('ADDED', shop) + '{"type":"MODI'),
    { code: 0, reason: 'Unreadable' },
    1,
  ],
  [
    'receives a line that is not an event',
    (response) => void response.end('hello\n'),
    { reason: 'Unreadable' },
    0,
  ],
  [
    'receives an event of unknown type',
    (response) => void response.end(line('NEW', shop)),
    { reason: 'Unreadable' },
    0,
  ],
  [
    'gets a 429 with Retry-After',
    refuse(429, 'TooManyRequests', { 'retry-after': '3' }),
    { code: 429, retryAfterMs: 3_000 },
    0,
  ],
])(
  'a watch that %s fails with that error after delivering the events before it',
  async (_what, answer, expected, count) => {
    const { events, error } = await watched(answer);
    expect(error).toMatchObject(expected);
    expect(error).toBeInstanceOf(KubeError);
    expect(events).toHaveLength(count);
  },
);

test('a watch ends when its signal is aborted or its listener throws', async () => {
  await using parts = await stage((response) => void response.writeHead(200).write(line('ADDED', shop)));
  const end = new AbortController();
  const options = { resourceVersion: '7', signal: end.signal };
  const thrown = new TypeError('no');
  await expect(
    parts.kube.watch(TENANTS, {
      ...options,
      onEvent() {
        throw thrown;
      },
    }),
  ).rejects.toBe(thrown);
  const failed = failure(parts.kube.watch(TENANTS, { ...options, onEvent: () => end.abort() }));
  expect((await failed).reason).toBe('Aborted');
});
