import { expect, test } from 'vitest';
import type { AuditEntry } from '#core/domain/tenant/audit-entry.ts';
import type { CountedWindow, DecidedBrake } from '#core/store/tenants/usage-counting.ts';
import { createBrakeChannels } from './brake-channels.ts';

/** A channel's last thousand messages, with so many hard bounces; a hundred are allowed. */
const bounced = (hardBounces: number, over: Partial<CountedWindow> = {}): CountedWindow => ({
  tenantId: 'tenant',
  channel: 'sms',
  finals: 1_000,
  hardBounces,
  complaints: 0,
  hours: [],
  level: null,
  busiestHour: 600,
  liftedAt: '2026-01-05 00:00:00+00',
  limits: null,
  ...over,
});

function setup() {
  const state: { fault?: Error; meanwhile?: () => Promise<unknown> } = {};
  const asked: (readonly DecidedBrake[])[] = [];
  const brakeChannels = createBrakeChannels({
    async applyBrakes(brakes) {
      asked.push(brakes);
      const { fault, meanwhile } = state;
      delete state.meanwhile;
      await meanwhile?.();
      if (fault !== undefined) throw fault;
      return brakes.map(({ tenantId }) => ({ tenantId }) as AuditEntry);
    },
  });
  const levels = () => asked.map((brakes) => brakes.map(({ tenantId, level }) => [tenantId, level]));
  return { state, asked, levels, brakeChannels };
}

test('a channel above its bound is braked once, with the gap that follows from its busiest hour', async () => {
  const { asked, brakeChannels } = setup();
  expect(await brakeChannels([bounced(101), bounced(100, { channel: 'email' })])).toEqual([
    { tenantId: 'tenant' },
  ]);
  expect(asked).toEqual([
    [
      {
        tenantId: 'tenant',
        channel: 'sms',
        level: 'slowed',
        reason: 'hard_bounce_rate',
        rate: 0.101,
        bound: 0.1,
        liftedAt: '2026-01-05 00:00:00+00',
        gapMs: 60_000,
      },
    ],
  ]);
  expect(await brakeChannels([])).toEqual([]);
  expect(asked).toHaveLength(1);
});

test('the database is not asked if no channel is above its bound', async () => {
  const { asked, brakeChannels } = setup();
  expect(await brakeChannels([bounced(100)])).toEqual([]);
  expect(asked).toEqual([]);
});

test('brakes that could not be applied are applied after the next pass, as that decides', async () => {
  const { state, levels, brakeChannels } = setup();
  const tenants = ['same', 'worse', 'mended'];
  state.fault = new Error('away');
  await expect(brakeChannels(tenants.map((tenantId) => bounced(101, { tenantId })))).rejects.toBe(
    state.fault,
  );
  delete state.fault;
  await brakeChannels([bounced(200, { tenantId: 'worse' }), bounced(100, { tenantId: 'mended' })]);
  expect(levels()[1]).toEqual([
    ['same', 'slowed'],
    ['worse', 'held'],
  ]);
});

test('a brake that is decided while others are applied is not forgotten', async () => {
  const { state, levels, brakeChannels } = setup();
  state.meanwhile = async () => {
    state.fault = new Error('away');
    await brakeChannels([bounced(200)]).catch(() => undefined);
    delete state.fault;
  };
  await brakeChannels([bounced(101)]);
  await brakeChannels([]);
  expect(levels()).toEqual([[['tenant', 'slowed']], [['tenant', 'held']], [['tenant', 'held']]]);
});
