import type { Mutant } from '../support/mutant.ts';

/** A removed protection, and the test that must fail because of it. */
export type Attack = Mutant & {
  readonly project: 'unit' | 'integration';
  /** The path of the test file. */
  readonly suite: string;
  /** A part of the test's name. */
  readonly test: string;
};

/** The faults of a group are planted together: none of them makes the test of another one fail. */
export const GROUPS: readonly (readonly Attack[])[] = [
  [
    {
      name: 'a function of the workers granted to everybody',
      changes: { 'worker-function': [/despatch_worker/, 'public'] },
      project: 'integration',
      suite: 'test/security/database-attacks.test.ts',
      test: 'each is executable only by the roles that need it',
    },
    {
      name: 'a function of the owner trusts the id it is given',
      changes: { 'suspension-tenant': [/of_tenant = current_tenant\(\) and /, ''] },
      project: 'integration',
      suite: 'test/security/database-attacks.test.ts',
      test: "suspend a tenant that is not the transaction's",
    },
    {
      name: 'one that lifts brakes trusts the id that it is given',
      changes: { 'brake-tenant': [/of_tenant is distinct from current_tenant\(\)/, 'false'] },
      project: 'integration',
      suite: 'test/security/database-attacks.test.ts',
      test: "lift a brake of a tenant that is not the transaction's",
    },
    {
      name: 'tenant filter dropped in a store function',
      changes: { 'account-list-tenant': [/tenant_id = \$\{tenantId\} and /, ''] },
      project: 'integration',
      suite: 'test/security/database-roles.test.ts',
      test: "a store call for one tenant in another's transaction finds nothing",
    },
    {
      name: 'a route does not ask whose the tenant is',
      changes: { 'tenant-stranger': [/caller\.isPlatformAdmin \? (.*) : undefined/, '$1'] },
      project: 'integration',
      suite: 'test/security/tenant-isolation.test.ts',
      test: "random requests that name B's objects",
    },
  ],
  [
    {
      name: 'row-level security off',
      changes: { 'own-rows': [/using .* with check [^']*/, 'using (true) with check (true)'] },
      project: 'integration',
      suite: 'test/security/database-roles.test.ts',
      test: "with a tenant the api sees that tenant's rows and no others",
    },
    {
      name: 'algorithms not limited',
      changes: { 'token-algorithms': 'delete' },
      project: 'integration',
      suite: 'test/security/issuer-keys.test.ts',
      test: 'one that the key supports but the configuration does not allow is rejected',
    },
    {
      name: 'type of a token not looked at',
      changes: { 'token-type': [/isAcceptedType\(.*?\) && /, ''] },
      project: 'integration',
      suite: 'test/security/forged-tokens.test.ts',
      test: 'of another type',
    },
    {
      name: 'checksum of a key not looked at',
      changes: { 'key-checksum': 'delete' },
      project: 'integration',
      suite: 'test/security/service-keys.test.ts',
      test: 'a key without a valid checksum causes no database query',
    },
    {
      name: 'ciphertext not bound to its row',
      changes: { 'ciphertext-context': [/bindingText\(.*?\)/, '$&.slice(0, 1)'] },
      project: 'integration',
      suite: 'test/security/key-destruction.test.ts',
      test: 'another account of the same tenant',
    },
  ],
  [
    {
      name: 'cursor not bound to its tenant',
      changes: { 'cursor-tenant': [/tenantId, /, ''] },
      project: 'integration',
      suite: 'test/security/tenant-isolation.test.ts',
      test: "B's cursors are rejected",
    },
    {
      name: 'a cursor of the feed not bound to its tenant',
      changes: { 'feed-cursor': [/tenantId, /, ''] },
      project: 'integration',
      suite: 'test/integration/api/api-events.test.ts',
      test: "is a tenant's own",
    },
    {
      name: 'a receipt URL shown to everybody',
      changes: { 'receipt-url-role': [/'admin'/, "'viewer'"] },
      project: 'integration',
      suite: 'test/integration/api/receipts-admin.test.ts',
      test: 'is shown to admins and owners alone',
    },
    {
      name: 'a receipt not bound to the account that it came to',
      changes: { 'receipt-account': [/r\.account_id is null/, 'true'] },
      project: 'integration',
      suite: 'test/security/receipt-tenants.test.ts',
      test: 'a receipt changes no message of another channel and no test message',
    },
    {
      name: 'suppressions read before the claim alone',
      changes: {
        'suppressed-claim': [/suppressions_now s/, '(select * from suppressions_now where false) s'],
      },
      project: 'integration',
      suite: 'test/integration/worker/suppressions.test.ts',
      test: 'an entry that is committed after a claim has looked, and before it begins',
    },
    {
      name: 'idempotency key not bound to its tenant',
      changes: { 'idempotency-owner': [/caller\.tenant\.id/, "''"] },
      project: 'integration',
      suite: 'test/security/tenant-isolation.test.ts',
      test: "B's idempotency keys replay nothing",
    },
    {
      name: 'a stored secret follows its account to another server',
      changes: { 'secret-stays': 'delete' },
      project: 'integration',
      suite: 'test/integration/api/api-admin-provider-accounts.test.ts',
      test: 'leads without being given again',
    },
    {
      name: 'settings and secret stored beside what came meanwhile',
      changes: { 'settings-version': [/(\w+)\.version === (\w+)\.version/, '$1.id === $2.id'] },
      project: 'integration',
      suite: 'test/integration/api/api-admin-provider-accounts.test.ts',
      test: 'and its place move together',
    },
    {
      name: 'a check of former settings counts for the present ones',
      changes: { 'verified-version': [/p\.version = of_version and /, ''] },
      project: 'integration',
      suite: 'test/integration/worker/account-results.test.ts',
      test: 'the answer of a check says nothing about settings or a secret that came after it',
    },
    {
      name: "a webhook is told of another tenant's message",
      changes: { 'event-tenant': [/ and x\.tenant_id = k\.tenant_id/, ''] },
      project: 'integration',
      suite: 'test/integration/worker/webhook-matching.test.ts',
      test: "shows nobody another tenant's events",
    },
    {
      name: 'a delivery completed by who has it no longer',
      changes: { 'delivery-claim': [/ and d\.claim = any \(array\[c\.claim\]\)/, ''] },
      project: 'integration',
      suite: 'test/integration/worker/webhook-claims.test.ts',
      test: 'belong to one worker until their lease is over',
    },
    {
      name: 'an endpoint that fails is sent all that waits',
      changes: { 'single-probe': [/least\(most, 1\)/, 'most'] },
      project: 'integration',
      suite: 'test/integration/worker/webhook-claims.test.ts',
      test: 'try a failing endpoint with one event by one worker',
    },
  ],
  [
    {
      name: 'log lines not redacted',
      changes: { 'log-redaction': [/isHidden\(name\)/, 'false'] },
      project: 'unit',
      suite: 'services/core/platform/telemetry/logger.test.ts',
      test: 'x-service-key',
    },
    {
      name: 'the token of a receipt URL not looked at',
      changes: { 'receipt-token': [/timingSafeEqual\(.*\)/, 'true'] },
      project: 'unit',
      suite: 'services/core/domain/receipts/receipt-token.test.ts',
      test: 'no other text is a token',
    },
    {
      name: "a tenant's host called where its name leads once it was checked",
      changes: { 'pinned-address': [/hostname: address\b/, 'hostname: options.hostname'] },
      project: 'unit',
      suite: 'services/core/platform/http/agents.test.ts',
      test: 'though the connection goes to the address that was checked',
    },
    {
      name: 'a setting that moves the secret is not declared',
      changes: { 'secret-route': [/true/, 'false'] },
      project: 'unit',
      suite: 'services/providers/twilio/provider.test.ts',
      test: 'is declared correctly for the setting region',
    },
  ],
];
