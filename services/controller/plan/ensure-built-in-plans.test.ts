import { expect, test } from 'vitest';
import { silentLogger, type Logger } from '#core/platform/telemetry/logger.ts';
import { createMemoryKube } from '#test/support/memory-kube.ts';
import type { KubeClient } from '../kube/kube-client.ts';
import { KubeError } from '../kube/kube-error.ts';
import { PLANS } from '../resources/kube-resources.ts';
import { ensureBuiltInPlans } from './ensure-built-in-plans.ts';

/** A cluster that answers the creation of these plans with these codes. */
function setup(refusals: Readonly<Record<string, number>> = {}) {
  const kube = createMemoryKube();
  const created: unknown[] = [];
  const create: KubeClient['create'] = async (resource, draft, call) => {
    const { name } = draft.metadata;
    const code = refusals[name];
    if (code !== undefined) throw new KubeError({ code, reason: 'Refused', message: `${name} is refused` });
    return kube.client.create(resource, draft, call);
  };
  const log: Logger = { ...silentLogger, info: (fields) => void created.push(fields) };
  return {
    created,
    put: (name: string) => kube.put(PLANS, { metadata: { name } }),
    has: (name: string) => kube.read(PLANS, name) !== undefined,
    ensure: (signal = AbortSignal.timeout(5_000)) =>
      ensureBuiltInPlans({ kube: { get: kube.client.get, create }, log }, signal),
  };
}

test('creates the plans that are absent, and says so once', async () => {
  const s = setup();
  s.put('starter');
  await s.ensure();
  await s.ensure();
  expect(s.created).toEqual([{ plans: ['free', 'growth', 'enterprise'] }]);
});

test('a plan that the cluster refuses does not keep the later ones from being created', async () => {
  const s = setup({ free: 403, growth: 422 });
  await expect(s.ensure()).rejects.toMatchObject({
    message: 'Built-in plans could not be created: free, growth',
    errors: [{ message: 'free is refused' }, { message: 'growth is refused' }],
  });
  expect(['free', 'starter', 'growth', 'enterprise'].map(s.has)).toEqual([false, true, false, true]);
  expect(s.created).toEqual([{ plans: ['starter', 'enterprise'] }]);
});

test('a plan that another release created meanwhile is left to it', async () => {
  const s = setup({ free: 409 });
  await s.ensure();
  expect(s.created).toEqual([{ plans: ['starter', 'growth', 'enterprise'] }]);
});

test('asks for nothing more when it is to end', async () => {
  const s = setup();
  await s.ensure(AbortSignal.abort());
  expect(s.has('free')).toBe(false);
});
