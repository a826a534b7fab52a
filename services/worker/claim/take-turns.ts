export type Turns<Entry> = {
  /**
   * Does part of an entry's work.
   * @returns whether the entry may have more.
   */
  readonly work: (entry: Entry) => Promise<boolean>;
  /** Puts an entry that has more work at the end of the open entries. */
  readonly again: (entry: Entry) => void;
  readonly isStopping: () => boolean;
};

/**
 * Works on the entries in turn until no work is left, so that an entry with much work does not block the others.
 * @param open is emptied; entries that are added meanwhile, or added again, come last.
 * @throws the first failure, after all other entries had their turns. A failed entry gets no further turn.
 */
export async function takeTurns<Key, Entry>(
  open: Map<Key, Entry>,
  { work, again, isStopping }: Turns<Entry>,
): Promise<void> {
  const failures: unknown[] = [];
  for (const [key, entry] of open) {
    if (isStopping()) return;
    open.delete(key);
    try {
      if (await work(entry)) again(entry);
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
}
