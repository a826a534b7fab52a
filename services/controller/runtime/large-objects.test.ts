import { expect, test, vi } from 'vitest';
import { silentLogger } from '#core/platform/telemetry/logger.ts';
import { stage, TENANTS } from '#test/support/scripted-kube.ts';
import { createReflector } from './reflector.ts';

/** In place of many labels: whoever may write a resource can give it as much, because etcd takes 1.5 MiB. */
const LABELS = { note: 'x'.repeat(1_400_000) };

test('a cache is filled although the objects of one writer are too large to be read together', async () => {
  const names = Array.from({ length: 70 }, (_, index) => `t${String(index).padStart(2, '0')}`);
  const large = new Set(names.slice(10));
  await using parts = await stage((response, { query }) => {
    if (query['watch'] === 'true') {
      response.writeHead(200).flushHeaders();
      return;
    }
    const start = Number(query['continue'] ?? 0);
    const end = start + Number(query['limit']);
    const items = names.slice(start, end).map((name) => ({
      metadata: {
        name,
        namespace: 'team',
        uid: name,
        resourceVersion: '1',
        ...(large.has(name) ? { labels: LABELS } : {}),
      },
    }));
    const metadata = { resourceVersion: '9', ...(end < names.length ? { continue: String(end) } : {}) };
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ metadata, items }));
  });
  const { cache, run } = createReflector({ client: parts.kube, resource: TENANTS, log: silentLogger });
  const end = new AbortController();
  const running = run(end.signal);
  try {
    await vi.waitFor(() => expect(cache.isSynced()).toBe(true), { timeout: 30_000 });
    expect([...cache.keys()]).toEqual(names.map((name) => `team/${name}`));
  } finally {
    end.abort();
    await running;
  }
}, 60_000);
