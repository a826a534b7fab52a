import { createPrivateKey, type KeyObject } from 'node:crypto';
import {
  webhookCertificateBinding,
  webhookKeyBinding,
  webhookSecretBinding,
} from '#core/domain/storage/binding.ts';
import type { ClientCertificate } from '#core/domain/account/client-certificate.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { redactionsOfHeaders } from '#core/domain/webhooks/webhook-headers.ts';
import { redactionsOfSecret } from '#core/domain/webhooks/webhook-secret.ts';
import { redactionsOfUrl } from '#core/domain/webhooks/webhook-url.ts';
import { createWebhookSigner, type WebhookSigner } from '#core/domain/webhooks/webhook-signature.ts';
import type { WebhookEndpoint } from '#core/store/webhooks/delivery-claim.ts';
import { createSecretCache, readJson, type SecretCache, type SecretCacheOptions } from '../secret-cache.ts';

export type EndpointKeys = {
  readonly sign: WebhookSigner;
  readonly clientCertificate: ClientCertificate | undefined;
  /** Texts that must be redacted from answers. */
  readonly redactions: readonly string[];
};

export type EndpointSecrets = {
  /** Returns the keys that a call to an endpoint is signed with; null while the keyring does not provide them. Never rejects. */
  readonly get: (endpoint: WebhookEndpoint) => Promise<EndpointKeys | null>;
  readonly invalidate: (endpointId: string) => void;
  /** Drops expired secrets. The owner calls it periodically. */
  readonly forgetStale: () => void;
};

export type EndpointSecretsOptions = Pick<SecretCacheOptions<unknown>, 'decrypter' | 'entriesMax' | 'ttlMs'>;

/** Creates the cache of webhook endpoints' decrypted secrets, in this process's memory only, bounded in number and time. */
export function createEndpointSecrets(options: EndpointSecretsOptions): EndpointSecrets {
  const present = createSecretCache({ ...options, bindingOf: webhookSecretBinding, read: asText });
  const former = createSecretCache({ ...options, bindingOf: webhookSecretBinding, read: asText });
  const keys = createSecretCache({ ...options, bindingOf: webhookKeyBinding, read: asPrivateKey });
  const certificates = createSecretCache({
    ...options,
    bindingOf: webhookCertificateBinding,
    read: asCertificate,
  });
  const ofEndpoint = [present, former, certificates];

  return {
    async get(endpoint) {
      const { signingKey, version } = endpoint;
      const ask = <Secret>(from: SecretCache<Secret>, ciphertext: string | null) =>
        ciphertext === null ? NOTHING : load(from, endpoint, endpoint.id, version, ciphertext);
      const [secret, previous, certificate, key] = await Promise.all([
        ask(present, endpoint.secret),
        ask(former, endpoint.previousSecret),
        ask(certificates, endpoint.clientCertificate),
        // The key of an id never changes.
        signingKey === null || !endpoint.signatures.includes('v1a')
          ? NOTHING
          : load(keys, endpoint, signingKey.id, 1, signingKey.ciphertext),
      ]);
      if (!secret.ok || !previous.ok || !certificate.ok || !key.ok) return null;
      const secrets = [secret.secret, previous.secret].filter((one) => one !== undefined);
      const shown = certificate.secret;
      return {
        sign: createWebhookSigner({ secrets, signingKey: key.secret }),
        clientCertificate: shown,
        redactions: [
          ...secrets.flatMap(redactionsOfSecret),
          ...redactionsOfHeaders(endpoint.headers),
          ...redactionsOfUrl(endpoint.url),
          ...(shown === undefined ? [] : [shown.key]),
        ],
      };
    },
    invalidate(endpointId) {
      for (const cache of ofEndpoint) cache.invalidate(endpointId);
    },
    forgetStale() {
      for (const cache of [...ofEndpoint, keys]) cache.forgetStale();
    },
  };
}

const NOTHING = { ok: true, secret: undefined } as const;

function load<Secret>(
  from: SecretCache<Secret>,
  { tenantId }: WebhookEndpoint,
  subject: string,
  secretVersion: number,
  ciphertext: string,
) {
  return from.get({ tenantId: tenantId as TenantId, subject, secretVersion, ciphertext });
}

function asText(plaintext: Uint8Array): string {
  return Buffer.from(plaintext).toString('utf8');
}

/** The api has checked the certificate before it was encrypted. */
function asCertificate(plaintext: Uint8Array): ClientCertificate {
  return readJson(plaintext) as ClientCertificate;
}

function asPrivateKey(plaintext: Uint8Array): KeyObject {
  return createPrivateKey({ key: Buffer.from(plaintext), format: 'der', type: 'pkcs8' });
}
