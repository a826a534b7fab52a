import { AppError, orNotFound, validationFailed } from '#core/domain/fault/app-error.ts';
import { auditChanges, type AuditChange } from '#core/domain/tenant/audit-change.ts';
import { webhookCertificateBinding, webhookSecretBinding } from '#core/domain/storage/binding.ts';
import { clientCertificateFault, type ClientCertificate } from '#core/domain/account/client-certificate.ts';
import type { ChangeOfEndpoint } from '#core/domain/tenant/notice.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { isSecretHeader } from '#core/domain/webhooks/webhook-headers.ts';
import { webhookUrlFault, type WebhookUrlRules } from '#core/domain/webhooks/webhook-url.ts';
import { isTakenByTls } from '#core/platform/http/taken-by-tls.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';
import type { KeyEncrypter } from '#core/platform/vault/keyring.ts';
import {
  findEndpoint,
  hasWaitingEvents,
  type EndpointChange,
  type EndpointRecord,
} from '#core/store/webhooks/webhook-endpoints.ts';
import { changeTenant, type Change } from '../changes/change-tenant.ts';
import { scopeOf } from '../changes/change-scope.ts';
import type { MemberCaller } from '../auth/auth.ts';
import type { RequestFacts } from '../http/routes/route.ts';
import type { WebhookDeps } from './webhook-deps.ts';

/**
 * @throws AppError `url_blocked` for an address in the internal network, `validation_failed` for an invalid endpoint URL.
 */
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

/** Encrypts an endpoint's secret. Never call this within a transaction: Vault may be slow. @throws KeyringError */
export async function encryptSecret(
  keyring: KeyEncrypter,
  tenantId: TenantId,
  endpointId: string,
  secret: string,
): Promise<string> {
  // Created with the first secret: a tenant whose creation failed leaves no key behind.
  await keyring.ensureKey(tenantId);
  return keyring.encrypt(webhookSecretBinding(tenantId, endpointId), Buffer.from(secret));
}

/** Encrypts a client certificate; the tenant's key must exist. Null and undefined are returned unchanged. */
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
 * Prevents headers with a secret from being sent to another server than they were entered for.
 * @throws AppError `missing_field`: `headers` is required in the same call.
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

/**
 * Refuses to make an endpoint ordered again as long as events still wait from when it was: what they waited for may have ended, and
 * nothing would release them.
 * @throws AppError `invalid_state`
 */
export async function assertReleased(tenantId: TenantId, tx: TransactionSql, id: string): Promise<void> {
  if (!(await hasWaitingEvents(tenantId, tx, id))) return;
  throw new AppError('invalid_state', {
    message: 'Events that waited for their order are still being released: try again in a minute',
  });
}

export async function requireEndpoint(
  tenantId: TenantId,
  tx: TransactionSql,
  id: string,
): Promise<EndpointRecord> {
  return orNotFound(await findEndpoint(tenantId, tx, id));
}

/** Which endpoint a call is about, and who makes the call. */
export type EndpointCall = {
  readonly caller: MemberCaller;
  readonly id: string;
  readonly request: RequestFacts;
};

/**
 * Runs one change of one endpoint and publishes its audit entry after the commit.
 * @param call with `changed`, the fields that the change may affect.
 */
export async function changeEndpoint<T>(
  deps: WebhookDeps,
  { caller, id, request, changed }: EndpointCall & { readonly changed: ChangeOfEndpoint },
  work: (change: Change, endpoint: EndpointRecord) => Promise<T>,
): Promise<T> {
  const tenantId = caller.tenant.id;
  const result = await changeTenant(deps, scopeOf(caller, request), async (change) =>
    work(change, await requireEndpoint(tenantId, change.tx, id)),
  );
  deps.notify('endpoint', { tenantId, id, changed });
  return result;
}

/** Returns an endpoint's name in the audit log. The query of its URL may contain a secret, so it is left out. */
export function nameOf({ url }: Pick<EndpointRecord, 'url'>): string {
  const { origin, pathname } = new URL(url);
  return `${origin}${pathname}`;
}

/** Headers are logged only as changed: any of their values may be a secret. */
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
