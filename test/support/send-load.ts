import { randomBytes } from 'node:crypto';
import { call, type CallAnswer } from './http-call.ts';
import type { ServiceProcess } from './service-process.ts';

export type Load = {
  /** Text of every message that was answered with a 202, by id. Every one of them must be delivered. */
  readonly acknowledged: ReadonlyMap<string, string>;
  /** All other answers. */
  readonly refusals: readonly CallAnswer[];
  /** Returns the longest time that an answer took. */
  readonly slowestMs: () => number;
  /** Stops after the requests in flight have ended. */
  readonly stop: () => Promise<void>;
};

/** Delay before an unreachable process is tried again. */
const AWAY_MS = 50;

/** Sends messages one after the other over several connections to each process, until it is stopped. */
export function startLoad(apis: readonly ServiceProcess[], key: string, connections: number): Load {
  const acknowledged = new Map<string, string>();
  const refusals: CallAnswer[] = [];
  const ending = new AbortController();
  let slowestMs = 0;

  async function sendOne(api: ServiceProcess): Promise<void> {
    const text = `load${randomBytes(8).toString('hex')}`;
    const body = { channel: 'sms', to: '+14155550100', body: text };
    const answer = await call(api.origin, 'POST', '/v1/messages', { key, body });
    slowestMs = Math.max(slowestMs, answer.tookMs);
    if (answer.status === 202) acknowledged.set(answer.body.id as string, text);
    else refusals.push(answer);
    if (answer.status === 503) await pause(AWAY_MS);
  }

  async function run(api: ServiceProcess): Promise<void> {
    // A request without an answer is no acknowledgement, whether or not the message was stored.
    while (!ending.signal.aborted) await sendOne(api).catch(() => pause(AWAY_MS));
  }

  const pause = (delayMs: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, delayMs));
  const running = apis.flatMap((api) =>
    Array.from({ length: Math.ceil(connections / apis.length) }, () => run(api)),
  );
  return {
    acknowledged,
    refusals,
    slowestMs: () => slowestMs,
    async stop() {
      ending.abort();
      await Promise.all(running);
    },
  };
}
