import { Gauge, type Registry } from 'prom-client';
import { within } from '#core/platform/process/deadline.ts';

/** A gauge whose value is read at each scrape; null, a failure or a slow answer exposes no value. */
export type Sampled = { readonly from: (read: () => number | null | Promise<number | null>) => void };

/** One series of a gauge. */
export type Sample<Label extends string> = {
  readonly labels: Readonly<Record<Label, string>>;
  readonly value: number;
};

/** The same for a gauge with labels. */
export type SampledSeries<Label extends string> = {
  readonly from: (read: () => readonly Sample<Label>[] | Promise<readonly Sample<Label>[]>) => void;
};

/**
 * In milliseconds, well below the timeout of a scrape (10 s by Prometheus' default): an unavailable database must not hide what
 * the other metrics show about it.
 */
export const SAMPLE_DEADLINE_MS = 1_500;

export function sampled(registry: Registry, name: string, help: string): Sampled {
  let read: () => number | null | Promise<number | null> = () => null;
  const gauge: Gauge = new Gauge({
    name,
    help,
    registers: [registry],
    async collect() {
      const value = await sample(read);
      if (value === null) gauge.remove();
      else gauge.set(value);
    },
  });
  return {
    from(source) {
      read = source;
    },
  };
}

/**
 * Registers a gauge with labels whose series are read at each scrape.
 * @param always series that are exposed as 0 if the answer does not contain them.
 */
export function sampledSeries<Label extends string>(
  registry: Registry,
  { name, help, labelNames }: { name: string; help: string; labelNames: Label[] },
  always: readonly Readonly<Record<Label, string>>[] = [],
): SampledSeries<Label> {
  let read: () => readonly Sample<Label>[] | Promise<readonly Sample<Label>[]> = () => [];
  const gauge: Gauge<Label> = new Gauge({
    name,
    help,
    labelNames,
    registers: [registry],
    async collect() {
      const samples = await sample(read);
      gauge.reset();
      if (samples === null) return;
      for (const labels of always) gauge.set(labels, 0);
      for (const { labels, value } of samples) gauge.set(labels, value);
    },
  });
  return {
    from(source) {
      read = source;
    },
  };
}

/** Returns null if the read fails or takes too long. */
function sample<T>(read: () => T | Promise<T>): Promise<T | null> {
  const reading = Promise.resolve().then(read);
  return within<T | null>(reading, SAMPLE_DEADLINE_MS, () => null).catch(() => null);
}
