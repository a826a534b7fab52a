import { z } from 'zod';
import type { TenantId } from '#core/domain/storage/ids.ts';
import {
  insertWebhookKey,
  KEYS_FRESH_SECONDS,
  invalidateClaimedSignatures,
  type WebhookKey,
} from '#core/store/webhooks/webhook-keys.ts';
import { createInTenant } from '../changes/change-tenant.ts';
import { earlierAnswer } from '../http/routes/earlier-answer.ts';
import { scopeOf } from '../changes/change-scope.ts';
import { graceSecondsField, uuidField } from '../http/input/fields.ts';
import { warningsField } from '../http/routes/request-warnings.ts';
import { defineRoute } from '../http/routes/define-route.ts';
import { idempotencyKeyField } from '../http/routes/idempotency.ts';
import type { RouteModule } from '../http/routes/route.ts';
import { newSigningKey } from './signing-key.ts';
import type { WebhookDeps } from './webhook-deps.ts';

const tag = 'Webhooks';

const KEY_EXAMPLE = {
  kty: 'OKP',
  crv: 'Ed25519',
  x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo',
  kid: 'c2a9f6d1-5b0e-4f3a-8d7c-1e2f3a4b5c6d',
  use: 'sig',
  alg: 'EdDSA',
} as const;

const Jwk = z
  .object({
    kty: z.literal('OKP'),
    crv: z.literal('Ed25519'),
    x: z.string().describe('The public key: 32 bytes as base64url.'),
    kid: z.uuid(),
    use: z.literal('sig'),
    alg: z.literal('EdDSA'),
  })
  .meta({
    id: 'WebhookJwk',
    description: 'A public key in the format of RFC 8037.',
    examples: [KEY_EXAMPLE],
  });

const Jwks = z.object({ keys: z.array(Jwk) }).meta({
  id: 'WebhookJwks',
  description: "A tenant's public keys, with the signing key first.",
  examples: [{ keys: [KEY_EXAMPLE] }],
});

const RotateKey = z
  .object({
    graceSeconds: graceSecondsField('For at most how many more seconds the previous keys are shown.'),
    idempotencyKey: idempotencyKeyField,
  })
  .meta({
    id: 'RotateWebhookKey',
    description: 'How to rotate the webhook key.',
    examples: [{ graceSeconds: 86_400 }],
  });

const Key = Jwk.extend(warningsField).meta({
  id: 'WebhookKey',
  description: 'The public key of the new signing key.',
  examples: [KEY_EXAMPLE],
});

/** The routes of the keys for `v1a` signatures: one to read the public keys, and those that rotate them. */
export function webhookKeyRoutes(deps: WebhookDeps): RouteModule[] {
  return [show(deps), rotate(deps)];
}

function show({ publicKeys }: WebhookDeps): RouteModule {
  return defineRoute({
    method: 'GET',
    path: '/v1/webhook-keys/:tenantId/jwks.json',
    operation: 'getWebhookKeys',
    summary: "Show a tenant's public webhook keys",
    description: `For receivers that check \`v1a\` signatures; valid for ${KEYS_FRESH_SECONDS} seconds: a new key is shown for longer than that before it signs, unless the rotation withdrew the previous key. The list is empty for a tenant without keys, or an unknown tenant.`,
    tag,
    auth: { kind: 'none' },
    params: z.object({
      tenantId: uuidField().describe('The id of the tenant.'),
    }),
    response: Jwks,
    handler: async ({ params }) => {
      const keys = await publicKeys.find(params.tenantId as TenantId);
      return {
        body: { keys: keys.map(toJwk) },
        headers: { 'cache-control': `public, max-age=${KEYS_FRESH_SECONDS}` },
      };
    },
  });
}

function rotate(deps: WebhookDeps): RouteModule {
  return defineRoute({
    method: 'POST',
    path: '/v1/admin/webhook-keys/rotate',
    operation: 'rotateWebhookKey',
    summary: 'Sign with a new key',
    description:
      "Creates another Ed25519 key for `v1a` signatures of all of the tenant's endpoints. The new key is shown at once and signs two minutes later, when every receiver can know it; the previous key signs until then. The previous key is shown for another `graceSeconds`, 24 hours by default, so that calls that are under way, or wait in a queue of their receiver, can be checked. With 0 the previous key must no longer be trusted: it is removed, and the new key signs at once. A receiver may then have the former list for up to a minute, and refuse events that are signed with the new key: they are delivered again.",
    tag,
    auth: { kind: 'bearer', role: 'admin' },
    idempotent: true,
    body: RotateKey,
    status: 201,
    response: Key,
    errors: ['idempotency_mismatch', 'dependency_unavailable'],
    handler: async ({ caller, body: { graceSeconds }, idempotency, request }) => {
      const tenantId = caller.tenant.id;
      const earlier = await earlierAnswer<z.output<typeof Key>>(deps, tenantId, idempotency);
      if (earlier !== null) return earlier;
      const key = await newSigningKey(deps.keyring, tenantId);
      const result = await createInTenant<z.output<typeof Key>>(
        deps,
        scopeOf(caller, request),
        idempotency,
        async ({ tx, audit }) => {
          await insertWebhookKey(tenantId, tx, key, graceSeconds);
          if (graceSeconds === 0) await invalidateClaimedSignatures(tenantId, tx);
          await audit('webhook_key.rotated', key.id, { graceSeconds });
          return { status: 201, body: toJwk(key) };
        },
      );
      if (!result.replayed) deps.notify('webhook_key', { tenantId });
      return result;
    },
  });
}

function toJwk({ id, publicKey }: WebhookKey): z.output<typeof Jwk> {
  return { kty: 'OKP', crv: 'Ed25519', x: publicKey, kid: id, use: 'sig', alg: 'EdDSA' };
}
