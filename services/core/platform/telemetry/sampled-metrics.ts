import { Gauge, type Registry } from 'prom-client';

/** A gauge whose value is asked for at each scrape; null or a failure shows nothing. */
export type Sampled = { readonly from: (read: () => number | null | Promise<number | null>) => void };

/** The same for counts by state. */
export type SampledStates = {
  readonly from: (read: () => Promise<Readonly<Record<string, number>>>) => void;
};

export function sampled(registry: Registry, name: string, help: string): Sampled {
  let read: () => number | null | Promise<number | null> = () => null;
  const gauge: Gauge = new Gauge({
    name,
    help,
    registers: [registry],
    async collect() {
      const value = await Promise.resolve()
        .then(read)
        .catch(() => null);
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

/** A gauge with a series for each state that is there at a scrape. */
export function sampledStates(registry: Registry, name: string, help: string): SampledStates {
  let read: () => Promise<Readonly<Record<string, number>>> = () => Promise.resolve({});
  const gauge: Gauge<'state'> = new Gauge({
    name,
    help,
    labelNames: ['state'],
    registers: [registry],
    async collect() {
      const states = await read().catch(() => ({}));
      gauge.reset();
      for (const [state, count] of Object.entries(states)) gauge.set({ state }, count);
    },
  });
  return {
    from(source) {
      read = source;
    },
  };
}
