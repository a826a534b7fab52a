/** Bounds of a delay that doubles with each failure. */
export type DelayBounds = { readonly minMs: number; readonly maxMs: number };

const USUAL: DelayBounds = { minMs: 100, maxMs: 5_000 };

/** Returns the minimum, doubled `times` times, but at most the maximum. */
export function doubledMs(times: number, { minMs, maxMs }: DelayBounds): number {
  return Math.min(maxMs, minMs * 2 ** Math.min(times, 30));
}

/**
 * Returns an exponential backoff, random above the minimum, so that many processes do not retry together. Default: from 100 ms to
 * 5 s.
 */
export function backoffMs(attempt: number, bounds: DelayBounds = USUAL): number {
  return bounds.minMs + Math.random() * (doubledMs(attempt, bounds) - bounds.minMs);
}

/** Resolves after the time, or at once when the signal is aborted. Never rejects. */
export function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const settle = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', settle);
      resolve();
    };
    const timer = setTimeout(settle, milliseconds);
    signal.addEventListener('abort', settle);
    if (signal.aborted) settle();
  });
}
