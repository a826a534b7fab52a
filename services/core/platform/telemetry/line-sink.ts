/** Where the lines of a log go. */
export type LineSink = {
  /** @param line ends with a line feed. */
  write(line: string): void;
  /** Writes at once what has come so far. */
  flush(): void;
};

/** A longer wait would take memory, and hold up the process when it is written. */
const KEPT_CHARACTERS_MAX = 64 * 1024;

/**
 * Writes the lines of one turn of the event loop together: a line a message costs a quarter of all processor time when
 * each is written by itself. Lines are written synchronously, so that nothing waits in memory for a slow reader, and at
 * the latest as the process exits, whatever it exits for. A process that is killed loses those of its last turn.
 */
export function createLineSink(write: (text: string) => void): LineSink {
  let kept = '';
  let isScheduled = false;

  function flush(): void {
    const text = kept;
    kept = '';
    if (text !== '') write(text);
  }

  process.once('exit', flush);
  return {
    write(line) {
      kept += line;
      if (kept.length > KEPT_CHARACTERS_MAX) return flush();
      if (isScheduled) return;
      isScheduled = true;
      setImmediate(() => {
        isScheduled = false;
        flush();
      });
    },
    flush,
  };
}
