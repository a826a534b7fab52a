/** Gathers rows that arrive while earlier flushes run: at most `flushesMax` flushes at once, with up to `rowsMax` rows each. */
export function createMicroBatch<Row, Result>(
  { rowsMax, flushesMax }: { readonly rowsMax: number; readonly flushesMax: number },
  flush: (rows: readonly Row[]) => Promise<readonly Result[]>,
): (row: Row) => Promise<Result> {
  type Waiting = { readonly row: Row } & PromiseWithResolvers<Result>;
  const waiting: Waiting[] = [];
  let flushing = 0;
  let isDue = false;

  const next = (): void => {
    isDue = false;
    if (waiting.length === 0 || flushing >= flushesMax) return;
    void send(waiting.splice(0, rowsMax));
    next();
  };
  const send = async (batch: readonly Waiting[]): Promise<void> => {
    flushing++;
    try {
      const results = await flush(batch.map(({ row }) => row));
      for (const [i, one] of batch.entries()) one.resolve(results[i] as Result);
    } catch (error) {
      for (const one of batch) one.reject(error);
    } finally {
      flushing--;
      next();
    }
  };

  return (row) => {
    const settled = Promise.withResolvers<Result>();
    waiting.push({ row, ...settled });
    // All rows of one turn of the event loop are flushed together.
    if (!isDue && flushing < flushesMax) {
      isDue = true;
      setImmediate(next);
    }
    return settled.promise;
  };
}
