import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createDownloadTime } from './download-time.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const setup = () => {
  const client = new AbortController();
  const time = createDownloadTime(client.signal, { downloadMsMax: 1_000, downloadPartMsMax: 300 });
  return { client, time, isOver: () => time.signal.aborted };
};

test('a download is aborted if its client reads nothing for too long', () => {
  const { time, isOver } = setup();
  vi.advanceTimersByTime(299);
  time.partTaken();
  vi.advanceTimersByTime(299);
  expect(isOver()).toBe(false);
  vi.advanceTimersByTime(1);
  expect(isOver()).toBe(true);
});

test('a download is aborted after its maximum duration even if its client keeps reading', () => {
  const { time, isOver } = setup();
  for (let ms = 0; ms < 900; ms += 100) {
    vi.advanceTimersByTime(100);
    time.partTaken();
  }
  vi.advanceTimersByTime(99);
  expect(isOver()).toBe(false);
  vi.advanceTimersByTime(1);
  expect(isOver()).toBe(true);
});

test('a download is aborted when its client disconnects', () => {
  const { client, isOver } = setup();
  client.abort();
  expect([isOver(), vi.getTimerCount()]).toEqual([true, 0]);
});

test('a finished download leaves no timer', () => {
  const { time } = setup();
  time[Symbol.dispose]();
  expect(vi.getTimerCount()).toBe(0);
});
