import { AppError, notFound, validationFailed } from '#core/domain/app-error.ts';
import { auditChanges, type AuditChange } from '#core/domain/audit-change.ts';
import { webhookCertificateBinding, webhookSecretBinding } from '#core/domain/binding.ts';
import { clientCertificateFault, type ClientCertificate } from '#core/domain/client-certificate.ts';
import type { ChangeOfEndpoint } from '#core/domain/endpoint-notice.ts';
import type { TenantId } from '#core/domain/ids.ts';
import { isSecretHeader } from '#core/domain/webhook-headers.ts';
import { webhookUrlFault, type WebhookUrlRules } from '#core/domain/webhook-url.ts';
import { isTakenByTls } from '#core/platform/http/taken-by-tls.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';
import type { KeyEncrypter } from '#core/platform/vault/keyring.ts';
import { findEndpoint, type EndpointChange, type EndpointRecord } from '#core/store/webhook-endpoints.ts';
import { changeTenant, scopeOf, type Change } from '../admin/admin-change.ts';
import type { MemberCaller } from '../auth/auth.ts';
import type { RequestFacts } from '../http/routes-kit.ts';
import type { WebhookDeps } from './webhook-deps.ts';

/** @throws AppError `url_blocked` for an address of the inside, `validation_failed` for what is no URL of an endpoint. */
export function assertUrl(url: string, rules: WebhookUrlRules): void {
  const fault = webhookUrlFault(url, rules);
  if (fault === undefined) return;
  const details = [{ field: 'url', ...fault }];
  throw fault.rule === 'url_blocked'
    ? new AppError('url_blocked', { details })
    : validationFailed(...details);
}

/** @throws AppError `validation_failed` */
export function assertCertificate(certificate: ClientCertificate | null | undefined): void {
  const fault =
    certificate === null || certificate === undefined
      ? undefined
      : clientCertificateFault(certificate, isTakenByTls);
  if (fault !== undefined) throw validationFailed({ ...fault, field: `clientCertificate.${fault.field}` });
}

/** Never call this within a transaction: Vault may take its time. @throws KeyringError */
export async function encryptSecret(
  keyring: KeyEncrypter,
  tenantId: TenantId,
  endpointId: string,
  secret: string,
): Promise<string> {
  // Made with the first secret: a tenant that never came to be leaves no key behind.
  await keyring.ensureKey(tenantId);
  return keyring.encrypt(webhookSecretBinding(tenantId, endpointId), Buffer.from(secret));
}

/** The same for a certificate, which the tenant's key has to be there for. Null and undefined stay what they are. */
export async function encryptCertificate(
  keyring: KeyEncrypter,
  tenantId: TenantId,
  endpointId: string,
  shown: ClientCertificate | null | undefined,
): Promise<string | null | undefined> {
  if (shown === null || shown === undefined) return shown;
  const { certificate, key } = shown;
  const text = JSON.stringify({ certificate, key });
  return keyring.encrypt(webhookCertificateBinding(tenantId, endpointId), Buffer.from(text));
}

/**
 * Headers that hold a secret go to no other server than they were given for.
 * @throws AppError `missing_field`: `headers` is needed in the same call.
 */
export function assertHeadersStay(before: EndpointRecord, { url, headers }: EndpointChange): void {
  if (url === undefined || headers !== undefined) return;
  if (new URL(url).origin === new URL(before.url).origin) return;
  if (!Object.keys(before.headers).some(isSecretHeader)) return;
  const message = "Field 'headers' is required with a url of another server: some of them hold a secret";
  throw new AppError('missing_field', {
    message,
    details: [{ field: 'headers', rule: 'required', message }],
  });
}

export async function requireEndpoint(
  tenantId: TenantId,
  tx: TransactionSql,
  id: string,
): Promise<EndpointRecord> {
  const endpoint = await findEndpoint(tenantId, tx, id);
  if (endpoint === undefined) throw notFound();
  return endpoint;
}

/** One change of one endpoint, told to everybody after its commit. @param changed what of it may be another one then. */
export async function changeEndpoint<T>(
  deps: WebhookDeps,
  caller: MemberCaller,
  id: string,
  request: RequestFacts,
  changed: ChangeOfEndpoint,
  work: (change: Change, endpoint: EndpointRecord) => Promise<T>,
): Promise<T> {
  const tenantId = caller.tenant.id;
  const result = await changeTenant(deps, scopeOf(caller, request), async (change) =>
    work(change, await requireEndpoint(tenantId, change.tx, id)),
  );
  deps.notify('endpoint', { tenantId, id, changed });
  return result;
}

/** What the audit log calls an endpoint. The query of its URL may hold a secret. */
export function nameOf({ url }: Pick<EndpointRecord, 'url'>): string {
  const { origin, pathname } = new URL(url);
  return `${origin}${pathname}`;
}

/** Of headers only that they changed: which of their values are secret, nobody knows for certain. */
export function changesOf(before: EndpointRecord, after: EndpointRecord): AuditChange[] {
  const isSecret = (field: string) => field === 'url' || field === 'headers';
  return auditChanges(settingsOf(before), settingsOf(after), isSecret);
}

function settingsOf(endpoint: EndpointRecord): Record<string, unknown> {
  const { url, description, eventTypes, finalOnly, channels, tags, headers, ordered, maskRecipients } =
    endpoint;
  const { rateLimitPerSecond, signatures, hasClientCertificate } = endpoint;
  return {
    url,
    description,
    eventTypes,
    finalOnly,
    channels,
    tags,
    headers,
    ordered,
    maskRecipients,
    rateLimitPerSecond,
    signatures,
    hasClientCertificate,
  };
}
