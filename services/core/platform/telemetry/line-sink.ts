/** Destination of a log's lines. */
export type LineSink = {
  /**
   * Buffers or writes a line.
   * @param line ends with a line feed.
   */
  write(line: string): void;
  /** Writes the buffered lines at once. */
  flush(): void;
};

/** Limits the buffer, which takes memory and blocks the process while it is written. */
const KEPT_CHARACTERS_MAX = 64 * 1024;

/**
 * Creates a sink that writes the lines of one turn of the event loop together: with one write per line, a line per message costs
 * a quarter of all processor time. Lines are written synchronously, so that nothing waits in memory for a slow reader, and at the
 * latest when the process exits for any reason. A killed process loses the lines of its last turn.
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
