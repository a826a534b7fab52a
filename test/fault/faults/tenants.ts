import { makeKey, secretOf } from '../tenants.ts';
import { healsItself, type Fault } from './fault.ts';

/** Longer than any process caches the state of a tenant. */
const OVER_MEMORY_MS = 7_500;
const USED_MS_MAX = 15_000;

export const TENANT_FAULTS: readonly Fault[] = [
  {
    name: 'key-revoked',
    async inject({ rig: { insist, tenants }, load, notes }) {
      const { rotating } = tenants;
      const caller = { token: rotating.ownerToken, tenantSlug: rotating.slug };
      const name = `rotated ${notes.revocations.length}`;
      const { id, key } = await insist((client) => makeKey(client, rotating, name));
      notes.secrets.push({ name: 'a service key', secret: secretOf(key) });
      const used = load.next('used');
      load.tell({ kind: 'credential', tenantId: rotating.id, credential: { name, key } });
      // A key must be used before it is revoked, because only then do processes have it in their caches.
      await Promise.race([used, new Promise((resolve) => setTimeout(resolve, USED_MS_MAX))]);
      await insist((client) => client.call(caller, 'DELETE', `/v1/admin/api-keys/${id}`));
      notes.revocations.push({ credential: name, at: Date.now() });
      return { target: rotating.slug, holdMs: OVER_MEMORY_MS, heal: healsItself };
    },
  },
  {
    name: 'tenant-suspended',
    async inject({ rig: { insist, tenants, platformToken }, notes }) {
      const { id, slug } = tenants.suspended;
      const caller = { token: platformToken };
      await insist((client) =>
        client.call(caller, 'POST', `/v1/admin/tenants/${id}/suspend`, { reason: 'abuse' }),
      );
      const from = Date.now();
      return {
        target: slug,
        holdMs: OVER_MEMORY_MS,
        async heal() {
          notes.suspensions.push({ tenantId: id, from, to: Date.now() });
          await insist((client) => client.call(caller, 'POST', `/v1/admin/tenants/${id}/resume`));
        },
      };
    },
  },
];
