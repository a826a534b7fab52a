/** Keeps what a stand-in accepted, so that it can answer lookups. Drops the oldest entry when it is full. */
export type StandInMemory<Kept> = {
  keep(id: string, kept: Kept): void;
  find(id: string): Kept | undefined;
};

export function createStandInMemory<Kept>(most = 10_000): StandInMemory<Kept> {
  const all = new Map<string, Kept>();
  return {
    keep(id, kept) {
      all.set(id, kept);
      const [oldest] = all.keys();
      if (all.size > most && oldest !== undefined) all.delete(oldest);
    },
    find: (id) => all.get(id),
  };
}
