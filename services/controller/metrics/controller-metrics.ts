import { createBaseMetrics } from '#core/platform/telemetry/base-metrics.ts';
import type { VaultOperation } from '#core/platform/vault/vault-transport.ts';
import { convergenceMetrics } from './convergence-metrics.ts';
import { controllerRuntimeMetrics, type ControllerMetricsOptions } from './runtime-metrics.ts';

const KEY_KEEPING: readonly VaultOperation[] = [
  'read_key',
  'create_key',
  'rotate_key',
  'rewrap',
  'delete_key',
];

export function createControllerMetrics(options: ControllerMetricsOptions) {
  const { registry, ...base } = createBaseMetrics(KEY_KEEPING);
  return {
    ...base,
    registry,
    ...controllerRuntimeMetrics(registry, options),
    ...convergenceMetrics(registry),
  };
}

export type ControllerMetrics = ReturnType<typeof createControllerMetrics>;
