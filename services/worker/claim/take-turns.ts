export type Turns<Entry> = {
  /** Does some of an entry's work. @returns whether there may be more. */
  readonly work: (entry: Entry) => Promise<boolean>;
  /** Puts an entry that has more at the end of those that are open. */
  readonly again: (entry: Entry) => void;
  readonly isStopping: () => boolean;
};

/**
 * Works on each entry in turn until nothing is left to do: one with much of it holds up no other one.
 * @param open is emptied; what is added meanwhile, or again, comes last.
 * @throws the first failure, after all others had their turns. An entry that fails has no other one.
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
