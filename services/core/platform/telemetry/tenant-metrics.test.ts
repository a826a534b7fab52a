import { expect, test } from 'vitest';
import { createApiMetrics } from './api-metrics.ts';
import { createWorkerMetrics } from './worker-metrics.ts';

async function tenantLines(metrics: { expose: () => Promise<{ text: string }> }): Promise<string[]> {
  const { text } = await metrics.expose();
  return text.split('\n').filter((line) => line.startsWith('despatch_tenant_'));
}

test('no metric names a tenant unless the operator asks for it', async () => {
  const [api, worker] = [createApiMetrics(), createWorkerMetrics()];
  api.accepted('sms', 'tenant-1');
  api.rejected('quota', 'tenant-1');
  worker.attempted({ channel: 'sms', provider: 'twilio', outcome: 'accepted', tenantId: 'tenant-1' });
  const exposed = (await Promise.all([api.expose(), worker.expose()])).map(({ text }) => text).join('');
  expect(exposed).not.toMatch(/tenant-1|tenant=|despatch_tenant/);
});

test('the api counts up to tenantsMax tenants by id, and the rest together', async () => {
  const metrics = createApiMetrics({ tenantsMax: 2 });
  expect(await tenantLines(metrics)).toContain('despatch_tenant_messages_accepted_total{tenant="other"} 0');
  for (const tenantId of ['a', 'b', 'c', 'd', 'a']) metrics.accepted('sms', tenantId);
  metrics.rejected('quota', 'b');
  metrics.rejected('rate', 'e');
  metrics.rejected('validation', null);
  const lines = await tenantLines(metrics);
  expect(lines.filter((line) => line.includes('accepted_total'))).toEqual([
    'despatch_tenant_messages_accepted_total{tenant="other"} 2',
    'despatch_tenant_messages_accepted_total{tenant="a"} 2',
    'despatch_tenant_messages_accepted_total{tenant="b"} 1',
  ]);
  expect(lines).toContain('despatch_tenant_messages_rejected_total{tenant="b",reason="quota"} 1');
  expect(lines).toContain('despatch_tenant_messages_rejected_total{tenant="a",reason="quota"} 0');
  expect(lines).toContain('despatch_tenant_messages_rejected_total{tenant="other",reason="rate"} 1');
  expect(lines.filter((line) => line.endsWith(' 1') && line.includes('validation'))).toEqual([]);
  const { text } = await metrics.expose();
  expect(text).toContain('despatch_messages_rejected_total{reason="validation"} 1\n');
});

test('the worker counts attempts of up to tenantsMax tenants by id, and the rest together', async () => {
  const metrics = createWorkerMetrics({ tenantsMax: 1 });
  const attempt = { channel: 'sms', provider: 'twilio' } as const;
  metrics.attempted({ ...attempt, outcome: 'accepted', tenantId: 'a' });
  for (let i = 0; i < 500; i++) metrics.attempted({ ...attempt, outcome: 'ambiguous', tenantId: `t${i}` });
  const lines = await tenantLines(metrics);
  expect(lines).toContain('despatch_tenant_attempts_total{tenant="a",outcome="accepted"} 1');
  expect(lines).toContain('despatch_tenant_attempts_total{tenant="a",outcome="not_started"} 0');
  expect(lines).toContain('despatch_tenant_attempts_total{tenant="other",outcome="ambiguous"} 500');
  expect(lines).toHaveLength(10);
});
