import { createPrivateKey, type KeyObject } from 'node:crypto';
import { webhookCertificateBinding, webhookKeyBinding, webhookSecretBinding } from '#core/domain/binding.ts';
import type { TenantId } from '#core/domain/ids.ts';
import { hiddenInHeaders } from '#core/domain/webhook-headers.ts';
import { hiddenInSecret } from '#core/domain/webhook-secret.ts';
import { hiddenInUrl } from '#core/domain/webhook-url.ts';
import { createWebhookSigner, type WebhookSigner } from '#core/domain/webhook-signature.ts';
import type { WebhookEndpoint } from '#core/store/delivery-claim.ts';
import { createCredentials, type CredentialsOptions } from '../accounts/credentials.ts';

export type EndpointKeys = {
  readonly sign: WebhookSigner;
  readonly clientCertificate: { readonly certificate: string; readonly key: string } | undefined;
  /** Texts that must be redacted from answers. */
  readonly hidden: readonly string[];
};

export type EndpointSecrets = {
  /** Returns the keys that a call to an endpoint is signed with; null while the keyring does not provide them. Never rejects. */
  readonly get: (endpoint: WebhookEndpoint) => Promise<EndpointKeys | null>;
  readonly invalidate: (endpointId: string) => void;
  /** Drops expired secrets. The owner calls it periodically. */
  readonly forgetStale: () => void;
};

export type EndpointSecretsOptions = Pick<CredentialsOptions, 'decrypter' | 'entriesMax' | 'ttlMs'>;

/** Creates the cache of webhook endpoints' decrypted secrets, in this process's memory only, bounded in number and time. */
export function createEndpointSecrets(options: EndpointSecretsOptions): EndpointSecrets {
  const present = createCredentials({ ...options, bindingOf: webhookSecretBinding, read: asText });
  const former = createCredentials({ ...options, bindingOf: webhookSecretBinding, read: asText });
  const keys = createCredentials({ ...options, bindingOf: webhookKeyBinding, read: asPrivateKey });
  const certificates = createCredentials({ ...options, bindingOf: webhookCertificateBinding });
  const ofEndpoint = [present, former, certificates];

  return {
    async get(endpoint) {
      const { signingKey, version } = endpoint;
      const ask = (from: typeof present, ciphertext: string | null) =>
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
      const secrets = [secret.secrets, previous.secrets].filter((one) => typeof one === 'string');
      const shown = certificate.secrets as EndpointKeys['clientCertificate'];
      return {
        sign: createWebhookSigner({ secrets, signingKey: key.secrets as KeyObject | undefined }),
        clientCertificate: shown,
        hidden: [
          ...secrets.flatMap(hiddenInSecret),
          ...hiddenInHeaders(endpoint.headers),
          ...hiddenInUrl(endpoint.url),
          ...(shown === undefined ? [] : [shown.key]),
        ],
      };
    },
    invalidate(endpointId) {
      for (const credentials of ofEndpoint) credentials.invalidate(endpointId);
    },
    forgetStale() {
      for (const credentials of [...ofEndpoint, keys]) credentials.forgetStale();
    },
  };
}

const NOTHING = { ok: true, secrets: undefined } as const;

function load(
  from: ReturnType<typeof createCredentials>,
  { tenantId }: WebhookEndpoint,
  subject: string,
  secretVersion: number,
  ciphertext: string,
) {
  return from.get({ tenantId: tenantId as TenantId, accountId: subject, secretVersion, ciphertext });
}

function asText(plaintext: Uint8Array): string {
  return Buffer.from(plaintext).toString('utf8');
}

function asPrivateKey(plaintext: Uint8Array): KeyObject {
  return createPrivateKey({ key: Buffer.from(plaintext), format: 'der', type: 'pkcs8' });
}
