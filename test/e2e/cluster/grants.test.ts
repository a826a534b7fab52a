import { expect, test } from 'vitest';
import { auditEntry, type AuditEntry } from './audit-log.ts';
import { forbiddenRequests, grantsOf, unusedGrants } from './grants.ts';

const LINE = JSON.stringify({
  stage: 'ResponseComplete',
  verb: 'patch',
  requestURI: '/apis/despatch.dev/v1alpha1/namespaces/team/tenants/acme/status?fieldManager=x',
  user: { username: 'system:serviceaccount:despatch:controller' },
  objectRef: {
    apiGroup: 'despatch.dev',
    resource: 'tenants',
    subresource: 'status',
    namespace: 'team',
    name: 'acme',
  },
  responseStatus: { code: 200 },
  annotations: { 'authorization.k8s.io/decision': 'allow' },
});

function entry(change: Partial<AuditEntry> = {}): AuditEntry {
  return {
    account: 'controller',
    verb: 'patch',
    group: 'despatch.dev',
    resource: 'tenants/status',
    namespace: 'team',
    name: 'acme',
    code: 200,
    isForbidden: false,
    ...change,
  };
}

test('a line of the audit log is read in the terms of RBAC rules, and only if it has a response', () => {
  const { account, ...rest } = entry();
  expect(auditEntry(LINE)).toEqual({ user: `system:serviceaccount:despatch:${account}`, ...rest });
  expect(auditEntry(LINE.replace('ResponseComplete', 'RequestReceived'))).toBeUndefined();
});

test.each<[string, Partial<AuditEntry>]>([
  ['another verb', { verb: 'update' }],
  ['the resource without its subresource', { resource: 'tenants' }],
  ['another group', { group: 'apps' }],
  ['another namespace', { namespace: 'other' }],
  ['another object', { name: 'globex' }],
  ['another account', { account: 'api' }],
  ['a request that was refused', { isForbidden: true }],
])('a grant is not used by %s', (_, change) => {
  const rule = {
    verbs: ['patch'],
    apiGroups: ['despatch.dev'],
    resources: ['tenants/status'],
    resourceNames: ['acme'],
  };
  const grants = grantsOf(rule, 'controller', 'team');
  expect(unusedGrants(grants, [entry()])).toEqual([]);
  expect(unusedGrants(grants, [entry(change)])).toEqual([
    'controller may patch tenants/status.despatch.dev acme in team',
  ]);
});

test('each verb of a rule is a grant of its own, and a cluster-wide grant is used in any namespace', () => {
  const grants = grantsOf(
    { verbs: ['patch', 'delete'], apiGroups: ['despatch.dev'], resources: ['tenants/status'] },
    'controller',
    '*',
  );
  expect(unusedGrants(grants, [entry()])).toEqual([
    'controller may delete tenants/status.despatch.dev everywhere',
  ]);
});

test('an apply that creates its object uses the grants create and patch', () => {
  const rule = { verbs: ['create', 'patch'], apiGroups: ['despatch.dev'], resources: ['tenants/status'] };
  const grants = grantsOf(rule, 'controller', '*');
  expect(unusedGrants(grants, [entry({ code: 201 })])).toEqual([]);
  expect(unusedGrants(grants, [entry()])).toHaveLength(1);
});

test('repeated forbidden requests are listed once', () => {
  const refused = entry({ isForbidden: true, code: 403 });
  expect(forbiddenRequests([entry(), refused, refused])).toHaveLength(1);
});
