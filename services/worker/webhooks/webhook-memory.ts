import type { WebhookMemory } from '#core/store/webhook-memory.ts';
import { createBehindTenants } from './behind-tenants.ts';
import { createDueEndpoints } from './due-endpoints.ts';
import { createMatchedPositions } from './matched-positions.ts';

/** Creates the memory of one worker's store for webhooks; it knows nothing yet. */
export function createWebhookMemory(): WebhookMemory {
  return { due: createDueEndpoints(), behind: createBehindTenants(), matched: createMatchedPositions() };
}
