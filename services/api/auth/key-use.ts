import type { Logger } from '#core/platform/telemetry/logger.ts';
import type { ServiceKeys } from './service-keys.ts';

/** Interval between two writes of key usage; `lastUsedAt` may lag by a minute (SQL `touch_api_keys`). */
const TOUCH_EVERY_MS = 5_000;

export type KeyUse = {
  /** Writes what has not been written yet, and nothing after it. */
  readonly stop: () => Promise<void>;
};

/** Writes down, every few seconds, which keys were used. */
export function writeKeyUse({ flushUsed }: Pick<ServiceKeys, 'flushUsed'>, log: Logger): KeyUse {
  const write = () =>
    flushUsed().catch((error: unknown) => log.warn({ err: error }, 'Use of keys was not written down'));
  const touching = setInterval(() => void write(), TOUCH_EVERY_MS);
  touching.unref();
  return {
    async stop() {
      clearInterval(touching);
      await write();
    },
  };
}
