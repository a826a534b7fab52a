import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import type { AuditEntry } from '#core/domain/tenant/audit-entry.ts';
import { tenantHistories } from './tenant-histories.ts';

const TENANT = randomUUID();
const [key, otherKey] = ['0a'.repeat(16), '0b'.repeat(16)];

function entryOf(action: string, target: string, facts: AuditEntry['facts'] = {}): AuditEntry {
  const at = '2026-03-01T09:30:00.000Z';
  return {
    id: randomUUID(),
    seq: 1,
    at,
    tenantId: TENANT,
    actor: 'a',
    action,
    target,
    requestId: null,
    facts,
  };
}

const added = (target: string, facts: AuditEntry['facts'] = {}): AuditEntry =>
  entryOf('suppression.added', target, {
    channel: 'email',
    addressKey: key,
    reason: 'unsubscribe',
    scope: 'all',
    expiresAt: null,
    ...facts,
  });
const removed = (target: string): AuditEntry => entryOf('suppression.removed', target);

test.each([
  ['an entry replaces the one before for the same recipient and reason', [added('1'), added('2')], ['2']],
  [
    'an entry that blocks less replaces one that blocks more',
    [added('1'), added('2', { scope: 'marketing', expiresAt: '2026-04-01T00:00:00.000Z' })],
    ['2'],
  ],
  ['a removal does not bring back the replaced entry', [added('1'), added('2'), removed('2')], []],
  ['an entry may follow a removal', [added('1'), removed('1'), added('2')], ['2']],
  [
    'the removal of an entry that is replaced since means nothing',
    [added('1'), added('2'), removed('1')],
    ['2'],
  ],
  ['the removal of an unknown entry means nothing', [added('1'), removed('2')], ['1']],
  ['another reason is another entry', [added('1'), added('2', { reason: 'opt_out' })], ['1', '2']],
  ['another recipient has another entry', [added('1'), added('2', { addressKey: otherKey })], ['1', '2']],
])('of suppressions, %s', (_title, entries, ids) => {
  const suppressions = tenantHistories(entries).get(TENANT)?.suppressions;
  expect([...(suppressions?.values() ?? [])].map(({ id }) => id)).toEqual(ids);
});

test('a member who accepted an invitation has its role, which a replay need not restore', () => {
  const since = '2026-03-01T09:00:00.000Z';
  const history = tenantHistories([entryOf('member.joined', 'user', { role: 'viewer', since })]).get(TENANT);
  expect(history?.members.get('user')).toEqual({ isRemoved: false, role: 'viewer', since, invitations: [] });
  expect(history?.lost.size).toBe(0);
});

test('a removed member is known by all invitations that it had accepted', () => {
  const history = tenantHistories([
    entryOf('member.joined', 'user', { role: 'viewer', invitations: ['1', '2'] }),
    entryOf('member.role_changed', 'user', { role: 'admin', invitations: ['3'] }),
    entryOf('member.joined', 'another', { role: 'viewer', invitations: ['4'] }),
    entryOf('member.removed', 'user'),
  ]).get(TENANT);
  expect(history?.members.get('user')).toMatchObject({ isRemoved: true, invitations: ['1', '2', '3'] });
});

const [applied, removal] = [entryOf('tenant.applied', TENANT), entryOf('member.removed', 'user')];
const roleChanged = (role: string): AuditEntry => entryOf('member.role_changed', 'user', { role });

test.each([
  ['was removed after a resource was applied', [applied, removal], ['user']],
  ['was removed before that', [removal, applied], []],
  ['was removed from a tenant whose resource did not change', [removal], []],
  ['was given a lower role', [applied, roleChanged('viewer')], ['user']],
  ['was removed and is a viewer again', [applied, removal, roleChanged('viewer')], ['user']],
  ['is an owner again', [applied, removal, roleChanged('owner')], []],
])('whether a resource may add a member again who %s', (_title, entries, ids) => {
  expect([...(tenantHistories(entries).get(TENANT)?.mayReturn ?? [])]).toEqual(ids);
});
