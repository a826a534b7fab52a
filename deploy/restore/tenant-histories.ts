import type { AuditEntry } from '#core/domain/tenant/audit-entry.ts';
import { textOf } from './facts.ts';
import { noteRevokedKey, noteRotatedKey, noteUpdatedKey } from './note-key.ts';
import { noteAddedMember, noteJoinedMember, noteRemovedMember, noteRole } from './note-member.ts';
import { noteRemovedSuppression, noteSuppression } from './note-suppression.ts';
import {
  noteApplied,
  noteBrake,
  noteLiftedBrakes,
  notePurge,
  noteRetained,
  noteSuspension,
} from './note-tenant.ts';
import { lose, newHistory, type Note, type TenantHistory } from './tenant-history.ts';

const account =
  (state: 'deleted' | 'disabled' | 'enabled'): Note =>
  ({ accounts }, { target }) =>
    void accounts.set(target, state);

const endpoint =
  (state: 'deleted' | 'paused' | 'resumed'): Note =>
  ({ endpoints }, { target }) =>
    void endpoints.set(target, state);

const noteReceiptUrl: Note = (history, entry) => {
  const { version, graceUntil } = entry.facts;
  if (typeof version !== 'number') return lose(history, entry);
  history.receiptUrls.set(entry.target, { version, graceUntil: textOf(graceUntil) });
};

const nothing: Note = () => {};

/** What each action changed. Any other action is lost. */
export const NOTES: Readonly<Record<string, Note>> = {
  'tenant.purge_begun': notePurge,
  'tenant.suspended': noteSuspension,
  'tenant.resumed': noteSuspension,
  'tenant.applied': noteApplied,
  'tenant.retained': noteRetained,
  'tenant.brake_applied': noteBrake,
  'tenant.brake_lifted': noteLiftedBrakes,
  'member.removed': noteRemovedMember,
  'member.added': noteAddedMember,
  'member.joined': noteJoinedMember,
  'member.role_changed': noteRole,
  'api_key.revoked': noteRevokedKey,
  'api_key.updated': noteUpdatedKey,
  'api_key.rotated': noteRotatedKey,
  'provider.deleted': account('deleted'),
  'provider.disabled': account('disabled'),
  'provider.enabled': account('enabled'),
  'provider.receipt_url_rotated': noteReceiptUrl,
  'provider.verify_requested': nothing,
  'webhook_endpoint.deleted': endpoint('deleted'),
  'webhook_endpoint.paused': endpoint('paused'),
  'webhook_endpoint.resumed': endpoint('resumed'),
  'webhook_endpoint.tested': nothing,
  'webhook_endpoint.redelivered': nothing,
  'webhook_endpoint.replayed': nothing,
  'webhook_endpoint.recovered': nothing,
  'suppression.added': noteSuppression,
  'suppression.removed': noteRemovedSuppression,
  // The entries of an import are not logged.
  'suppression.import_begun': lose,
  'suppression.imported': lose,
  'message.content_erased': ({ erased }, { target }) => void erased.add(target),
};

/**
 * Returns the final state of everything that was changed, by tenant.
 * @param entries in the order in which they happened.
 */
export function tenantHistories(entries: readonly AuditEntry[]): ReadonlyMap<string, TenantHistory> {
  const histories = new Map<string, TenantHistory>();
  for (const entry of entries) {
    const history = histories.get(entry.tenantId) ?? newHistory();
    histories.set(entry.tenantId, history);
    const note = Object.hasOwn(NOTES, entry.action) ? NOTES[entry.action] : undefined;
    (note ?? lose)(history, entry);
  }
  return histories;
}
