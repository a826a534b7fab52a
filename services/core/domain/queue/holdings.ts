/** What owners hold of something that they share, such as bytes or slots. */
export type Holdings = {
  /** The sum of what all hold. */
  readonly total: number;
  /** Number of owners that hold something. */
  readonly owners: number;
  of(owner: string): number;
  /** @param amount negative: the owner holds so much less from now on. */
  add(owner: string, amount: number): void;
};

export function createHoldings(): Holdings {
  const held = new Map<string, number>();
  let total = 0;
  const of = (owner: string): number => held.get(owner) ?? 0;

  return {
    get total() {
      return total;
    },
    get owners() {
      return held.size;
    },
    of,
    add(owner, amount) {
      total += amount;
      const own = of(owner) + amount;
      if (own > 0) held.set(owner, own);
      else held.delete(owner);
    },
  };
}
