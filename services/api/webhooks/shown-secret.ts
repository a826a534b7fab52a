import { randomBytes } from 'node:crypto';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { deriveWebhookSecret } from '#core/domain/webhooks/webhook-secret.ts';
import { encryptSecret } from './endpoint-change.ts';
import type { WebhookDeps } from './webhook-deps.ts';

const NONCE_BYTES = 16;

/** Endpoint secrets that an answer shows only once: for the replay of a request only a nonce is stored, not the secret. */
export function shownSecrets({ keyring, subkeys }: Pick<WebhookDeps, 'keyring' | 'subkeys'>) {
  const derive = (endpointId: string, nonce: Uint8Array): string =>
    deriveWebhookSecret(subkeys['webhook-secret'], endpointId, nonce);
  return {
    async make(tenantId: TenantId, endpointId: string) {
      const nonce = randomBytes(NONCE_BYTES);
      const secret = derive(endpointId, nonce);
      return { nonce, secret, ciphertext: await encryptSecret(keyring, tenantId, endpointId, secret) };
    },
    /** Rebuilds the original answer from what was stored. */
    restore: <Answer extends { readonly id: string }>(stored: Answer, nonce: Uint8Array): Answer => ({
      ...stored,
      secret: derive(stored.id, nonce),
    }),
  };
}
