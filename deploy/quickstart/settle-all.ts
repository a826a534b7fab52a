/** Waits for all promises, then throws the first failure, so that nothing is still starting during the cleanup. */
export async function settleAll<T extends readonly unknown[]>(work: {
  readonly [Index in keyof T]: Promise<T[Index]>;
}): Promise<T> {
  const results = await Promise.allSettled(work);
  const failed = results.find((result) => result.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
  return results.map((result) => (result.status === 'fulfilled' ? result.value : undefined)) as unknown as T;
}
