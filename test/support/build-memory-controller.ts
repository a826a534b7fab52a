import { silentLogger } from '#core/platform/telemetry/logger.ts';
import {
  buildController,
  CONTROLLERS,
  type Controller,
  type ControllerDeps,
} from '../../services/controller/build-controller.ts';
import { CONDITION_TYPES } from '../../services/controller/resources/own-conditions.ts';
import { createControllerMetrics } from '../../services/controller/metrics/controller-metrics.ts';

/** Builds a controller that leads and tells nobody of what it does. */
export function buildMemoryController(
  deps: Pick<ControllerDeps, 'kube' | 'store' | 'keys'>,
  concurrency: number,
): Controller {
  return buildController({
    ...deps,
    nats: { publishNotice: () => undefined },
    events: { record: () => undefined },
    metrics: createControllerMetrics({
      controllers: CONTROLLERS,
      conditions: CONDITION_TYPES,
      leaseName: 'l',
    }),
    log: silentLogger,
    isLeading: () => true,
    settings: { watchNamespaces: [], controllerName: 'one', concurrency, resyncMs: 300_000 },
  });
}
