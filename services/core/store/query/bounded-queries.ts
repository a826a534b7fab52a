import { camelRows, type ValuesQuery } from './camel-rows.ts';

/** Gives a query its deadline. */
export type Bounded = <T>(work: Promise<T>) => Promise<T>;

/** Reads the answers of queries that have a deadline. */
export function boundedQueries(bounded: Bounded) {
  /** The answer of a query with one row and one column, `n`; undefined without a row. */
  const value = async <T>(query: Promise<readonly { n: T }[]>): Promise<T | undefined> =>
    (await bounded(query))[0]?.n;

  return {
    value,
    /** The number in a query's one row and column, `n`; 0 without a row. */
    count: async (query: Promise<readonly { n: number }[]>): Promise<number> => (await value(query)) ?? 0,
    /** Rows with their columns in camel case. */
    rowsOf: async <Row>(query: ValuesQuery): Promise<Row[]> => camelRows<Row>(await bounded(query.values())),
    seqsOf: async (query: Promise<readonly { seq: number }[]>): Promise<Set<number>> =>
      new Set((await bounded(query)).map(({ seq }) => seq)),
  };
}
