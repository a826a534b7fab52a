const DELAY_MS_MIN = 100;
const DELAY_MS_MAX = 5_000;

/** Returns an exponential backoff from 100 ms to 5 s, random above the minimum, so that many processes do not retry together. */
export function backoffMs(attempt: number): number {
  const ceiling = Math.min(DELAY_MS_MAX, DELAY_MS_MIN * 2 ** Math.min(attempt, 10));
  return DELAY_MS_MIN + Math.random() * (ceiling - DELAY_MS_MIN);
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
