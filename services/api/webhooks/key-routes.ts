import { z } from 'zod';
import type { TenantId } from '#core/domain/ids.ts';
import {
  insertWebhookKey,
  KEYS_FRESH_SECONDS,
  loadWebhookKeys,
  signClaimedAnew,
  type WebhookKey,
} from '#core/store/webhook-keys.ts';
import { createInTenant, earlierAnswer, scopeOf } from '../admin/admin-change.ts';
import { graceSecondsField } from '../http/fields.ts';
import { warningsField } from '../http/request-warnings.ts';
import { defineRoute, idempotencyKeyField, type RouteModule } from '../http/routes-kit.ts';
import { createPublicKeys } from './public-keys.ts';
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
  .meta({ id: 'WebhookJwk', description: 'A public key, as RFC 8037 writes it.', examples: [KEY_EXAMPLE] });

const Jwks = z.object({ keys: z.array(Jwk) }).meta({
  id: 'WebhookJwks',
  description: "A tenant's public keys, the one that signs first.",
  examples: [{ keys: [KEY_EXAMPLE] }],
});

const RotateKey = z
  .object({
    graceSeconds: graceSecondsField('How many seconds longer the former keys are shown at most.'),
    idempotencyKey: idempotencyKeyField,
  })
  .meta({ id: 'RotateWebhookKey', description: 'A key to make.', examples: [{ graceSeconds: 86_400 }] });

const Key = Jwk.extend(warningsField).meta({
  id: 'WebhookKey',
  description: 'The public key of what is to sign.',
  examples: [KEY_EXAMPLE],
});

/** The routes of the keys for `v1a` signatures: one to read the public keys, and those that rotate them. */
export function webhookKeyRoutes(deps: WebhookDeps): RouteModule[] {
  return [show(deps), rotate(deps)];
}

function show({ sql }: WebhookDeps): RouteModule {
  const find = createPublicKeys({ load: (ids) => loadWebhookKeys(sql, ids) });
  return defineRoute({
    method: 'GET',
    path: '/v1/webhook-keys/:tenantId/jwks.json',
    operation: 'getWebhookKeys',
    summary: "Show a tenant's public keys of webhooks",
    description: `For everybody who checks \`v1a\` signatures; good for ${KEYS_FRESH_SECONDS} seconds: a new key is shown for longer than that before it signs. Of a tenant that has no keys, or is none, there are none.`,
    tag,
    auth: { kind: 'none' },
    params: z.object({
      tenantId: z
        .uuid()
        .transform((id) => id.toLowerCase())
        .describe('The id of the tenant.'),
    }),
    response: Jwks,
    handler: async ({ params }) => {
      const keys = await find(params.tenantId as TenantId);
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
      "Makes another Ed25519 key for `v1a` signatures of all of the tenant's endpoints. It is shown at once and signs two minutes later, when everybody can know it; the former one signs until then. That one is shown for `graceSeconds` more, 24 hours unless said otherwise, so that calls that are on their way, or wait in a queue of their receiver, can be checked. With 0 nobody is to trust the former one any more: it is gone, and the new one signs at once.",
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
          if (graceSeconds === 0) await signClaimedAnew(tenantId, tx);
          await audit('webhook_key.rotated', key.id, { graceSeconds });
          return { status: 201, body: toJwk(key) };
        },
      );
      return result;
    },
  });
}

function toJwk({ id, publicKey }: WebhookKey): z.output<typeof Jwk> {
  return { kty: 'OKP', crv: 'Ed25519', x: publicKey, kid: id, use: 'sig', alg: 'EdDSA' };
}
