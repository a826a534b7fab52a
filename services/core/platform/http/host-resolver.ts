import { Resolver } from 'node:dns/promises';
import { isIP } from 'node:net';
import { LRUCache } from 'lru-cache';
import { answerWithin } from '../process/deadline.ts';

export type HostResolverOptions = {
  /** Name servers in the form that `isNameServer` accepts. Empty: those of the machine. */
  readonly servers: readonly string[];
};

/** Returns the addresses of a host name, IPv4 first. Rejects if there are none, or if no answer arrived in time. */
export type HostResolver = (name: string) => Promise<readonly string[]>;

/** Timeout of the first try; later tries wait longer. Tries are shorter if the name servers usually answer fast. */
const TRY_MS = 1_000;
const TRY_MS_MAX = 2_000;
const TRIES = 4;
/** How long the addresses of one family wait for those of the other: some servers never answer a query for IPv6 (RFC 4074, 4.1). */
const OTHER_FAMILY_MS = 1_000;
/** How long a failed name is not resolved again. */
const FAILED_FOR_MS = 3_000;
const FAILED_MAX = 10_000;

/**
 * Creates a resolver for names chosen by tenants. It queries name servers directly: the system's resolver occupies one of few
 * threads until the answer arrives, and connections of all tenants wait for those threads. `/etc/hosts` and search domains are
 * ignored, because they would give tenants short names of the cluster.
 */
export function createHostResolver({ servers }: HostResolverOptions): HostResolver {
  const resolver = new Resolver({ timeout: TRY_MS, tries: TRIES, maxTimeout: TRY_MS_MAX });
  if (servers.length > 0) resolver.setServers(servers);
  const asking = new Map<string, Promise<readonly string[]>>();
  const failed = new LRUCache<string, true>({ max: FAILED_MAX, ttl: FAILED_FOR_MS });

  async function ask(name: string): Promise<readonly string[]> {
    const families = [resolver.resolve4(name), resolver.resolve6(name)];
    try {
      await Promise.any(families);
    } catch (error) {
      failed.set(name, true);
      throw new Error('The name has no address', { cause: error });
    }
    const found = await Promise.allSettled(
      families.map((family) => answerWithin('dns', family, OTHER_FAMILY_MS)),
    );
    return found.flatMap((one) => (one.status === 'fulfilled' ? one.value : []));
  }

  return (name) => {
    const key = name.toLowerCase();
    const underWay = asking.get(key);
    if (underWay !== undefined) return underWay;
    if (failed.has(key)) return Promise.reject(new Error('The name had no address a moment ago'));
    const answer = ask(key).finally(() => void asking.delete(key));
    asking.set(key, answer);
    return answer;
  };
}

/** Returns true for an IP address with or without a port: `10.0.0.53`, `10.0.0.53:5353`, `[fd00::53]:5353`. */
export function isNameServer(text: string): boolean {
  if (isIP(text) !== 0) return true;
  const [, host = '', port = ''] = /^\[?([^\]]+?)\]?:(\d{1,5})$/.exec(text) ?? [];
  return (
    isIP(host) !== 0 &&
    text.startsWith('[') === (isIP(host) === 6) &&
    Number(port) >= 1 &&
    Number(port) <= 65_535
  );
}
