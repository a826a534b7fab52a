import { readdir, readFile } from 'node:fs/promises';

type Status = { readonly parent: number; readonly bytes: number };

/**
 * Returns the private memory of a process and its children in bytes, without files and shared memory, so that a cache of Postgres
 * that fills up does not count as growth. NaN where there is no /proc.
 */
export async function processMemory(pid: number): Promise<number> {
  const names = await readdir('/proc').catch(() => []);
  const pids = names.filter((name) => /^\d+$/.test(name));
  const all = await Promise.all(pids.map(async (name) => ({ pid: Number(name), ...(await statusOf(name)) })));
  const family = all.filter((one) => one.pid === pid || one.parent === pid);
  return family.length === 0 ? Number.NaN : family.reduce((sum, one) => sum + (one.bytes ?? 0), 0);
}

async function statusOf(pid: string): Promise<Partial<Status>> {
  const text = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  return parseStatus(text);
}

/** A process that has just ended has none of these fields. */
export function parseStatus(text: string): Partial<Status> {
  const of = (name: string): number | undefined => {
    const digits = new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1];
    return digits === undefined ? undefined : Number(digits);
  };
  const [parent, kilobytes] = [of('PPid'), of('RssAnon')];
  return {
    ...(parent === undefined ? {} : { parent }),
    ...(kilobytes === undefined ? {} : { bytes: kilobytes * 1_024 }),
  };
}
