/** Returns the sum of all series of a service's metric; 0 where there is none. */
export async function readMetric(metricsPort: number, name: string): Promise<number> {
  const response = await fetch(`http://127.0.0.1:${metricsPort}/metrics`, {
    signal: AbortSignal.timeout(10_000),
  });
  return sumOfSeries(await response.text(), name);
}

export function sumOfSeries(text: string, name: string): number {
  return text
    .split('\n')
    .filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
}
