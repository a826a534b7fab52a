/** Lets one after the other do what takes much memory. */
export type Turns = {
  /** Resolves when it is one's turn, with what ends it; to be called once. */
  readonly take: () => Promise<() => void>;
};

export function createTurns(): Turns {
  let last: Promise<void> = Promise.resolve();
  return {
    async take() {
      const before = last;
      const { promise, resolve } = Promise.withResolvers<void>();
      last = promise;
      await before;
      return resolve;
    },
  };
}
