const PAUSE_MS_MIN = 1_000;
const PAUSE_MS_MAX = 15_000;

/** Returns the pause after this many tries, with jitter, because runs that started together would keep colliding. */
export function retryPauseMs(tries: number, most: number = PAUSE_MS_MAX): number {
  const pauseMs = Math.min(PAUSE_MS_MIN * 2 ** (tries - 1), most);
  return Math.round(pauseMs * (0.5 + Math.random() / 2));
}
