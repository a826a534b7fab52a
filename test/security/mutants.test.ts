import { beforeAll, describe, expect, test } from 'vitest';
import { plantMutants, type Mutant } from '#test/support/mutant-tree.ts';
import { runVitest, type VitestRun } from '#test/support/run-vitest.ts';

/** A protection taken away, and the test that has to notice. */
type Attack = Mutant & {
  readonly project: 'unit' | 'integration';
  /** Path of the test file. */
  readonly suite: string;
  /** What the test's name holds. */
  readonly test: string;
};

const SCHEMA = 'services/core/store';
/** The faults of a group are planted together: none of them can make another's test fail. */
const GROUPS: readonly (readonly Attack[])[] = [
  [
    {
      name: 'a function of the workers granted to everybody',
      file: `${SCHEMA}/functions/load_accounts.sql`,
      find: 'to despatch_worker;',
      replace: 'to public;',
      project: 'integration',
      suite: 'test/security/database-attacks.test.ts',
      test: 'each is callable by the roles that need it and by nobody else',
    },
    {
      name: 'a function of the owner trusts the id it is given',
      file: `${SCHEMA}/functions/set_suspension.sql`,
      find: 'where t.id = of_tenant and of_tenant = current_tenant() and',
      replace: 'where t.id = of_tenant and',
      project: 'integration',
      suite: 'test/security/database-attacks.test.ts',
      test: "suspend a tenant that is not the transaction's",
    },
    {
      name: 'tenant filter dropped in a store function',
      file: 'services/core/store/provider-accounts.ts',
      find: "where tenant_id = ${tenantId} and status <> 'deleted'",
      replace: "where status <> 'deleted'",
      project: 'integration',
      suite: 'test/security/database-roles.test.ts',
      test: "a store call for one tenant in another's transaction finds nothing",
    },
    {
      name: 'a route does not ask whose the tenant is',
      file: 'services/api/admin/tenants.ts',
      find: 'const tenant = caller.isPlatformAdmin ? await findTenant(sql, id) : undefined;',
      replace: 'const tenant = await findTenant(sql, id);',
      project: 'integration',
      suite: 'test/security/tenant-isolation.test.ts',
      test: 'whatever of B is named',
    },
  ],
  [
    {
      name: 'row-level security off',
      file: `${SCHEMA}/migrations/0001_tables.sql`,
      find: 'using (tenant_id = current_tenant()) with check (tenant_id = current_tenant())',
      replace: 'using (true) with check (true)',
      project: 'integration',
      suite: 'test/security/database-roles.test.ts',
      test: "with a tenant the api sees that tenant's rows and no others",
    },
    {
      name: 'algorithms not limited',
      file: 'services/api/auth/bearer.ts',
      find: '        algorithms: [...config.algorithms],\n',
      replace: '',
      project: 'integration',
      suite: 'test/security/issuer-keys.test.ts',
      test: 'one that the key could do and the configuration does not name is refused',
    },
    {
      name: 'type of a token not looked at',
      file: 'services/api/auth/bearer.ts',
      find: 'isAcceptedType(protectedHeader, config.tokenTypes) &&',
      replace: '',
      project: 'integration',
      suite: 'test/security/forged-tokens.test.ts',
      test: 'of another type',
    },
    {
      name: 'checksum of a key not looked at',
      file: 'services/core/domain/service-key.ts',
      find: 'if (checksum(payload as string) !== sum) return null;',
      replace: '',
      project: 'integration',
      suite: 'test/security/service-keys.test.ts',
      test: 'what has no good checksum asks no database',
    },
    {
      name: 'ciphertext not bound to its row',
      file: 'services/core/platform/vault/vault-keyring.ts',
      find: "return Buffer.from(text).toString('base64');",
      replace: "return Buffer.from(text.slice(0, 1)).toString('base64');",
      project: 'integration',
      suite: 'test/security/key-destruction.test.ts',
      test: 'another account of the same tenant',
    },
  ],
  [
    {
      name: 'cursor not bound to its tenant',
      file: 'services/api/messages/read-messages.ts',
      find: "const scope = ['messages', tenantId, filter];",
      replace: "const scope = ['messages', filter];",
      project: 'integration',
      suite: 'test/security/tenant-isolation.test.ts',
      test: "by B's cursors",
    },
    {
      name: 'idempotency key not bound to its tenant',
      file: 'services/api/http/routes-kit.ts',
      find: "return caller.kind === 'user' ? caller.user.id : caller.tenant.id;",
      replace: "return caller.kind === 'user' ? caller.user.id : '';",
      project: 'integration',
      suite: 'test/security/tenant-isolation.test.ts',
      test: "by B's idempotency keys",
    },
    {
      name: 'a stored secret follows its account to another server',
      file: 'services/api/admin/provider-accounts.ts',
      find: 'assertSecretStays(provider, before.configPublic, publicConfig);',
      replace: '',
      project: 'integration',
      suite: 'test/integration/api/api-admin-provider-accounts.test.ts',
      test: 'leads without being given again',
    },
    {
      name: 'settings and secret stored beside what came meanwhile',
      file: 'services/api/admin/provider-account-secret.ts',
      find: 'if (judged.version === current.version) return;',
      replace: 'if (judged.id === current.id) return;',
      project: 'integration',
      suite: 'test/integration/api/api-admin-provider-accounts.test.ts',
      test: 'and its place move together',
    },
    {
      name: 'a check of former settings counts for the present ones',
      file: `${SCHEMA}/functions/note_verification.sql`,
      find: "p.id = for_account and p.version = of_version and p.status not in ('disabled', 'deleted') for update",
      replace: "p.id = for_account and p.status not in ('disabled', 'deleted') for update",
      project: 'integration',
      suite: 'test/integration/worker/delivery-store.test.ts',
      test: 'the answer of a check says nothing about settings or a secret that came after it',
    },
  ],
  [
    {
      name: 'log lines not redacted',
      file: 'services/core/platform/telemetry/logger.ts',
      find: 'isHidden(name) && inner !== undefined ? REDACTED : ',
      replace: '',
      project: 'unit',
      suite: 'services/core/platform/telemetry/logger.test.ts',
      test: 'x-service-key',
    },
    {
      name: 'a setting that moves the secret is not declared',
      file: 'services/providers/twilio/provider.ts',
      find: '    region: true,',
      replace: '    region: false,',
      project: 'unit',
      suite: 'services/providers/twilio/provider.test.ts',
      test: 'is declared truly for the setting region',
    },
  ],
];

/** One run starts servers of its own. */
const RUN_MS_MAX = 180_000;

const escape = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);

async function run(attacks: readonly Attack[], root: string): Promise<VitestRun> {
  const project = attacks[0]?.project ?? 'unit';
  expect(attacks.every((attack) => attack.project === project)).toBe(true);
  return runVitest(project, {
    filters: [...new Set(attacks.map(({ suite }) => suite))],
    names: attacks.map(({ test: name }) => escape(name)).join('|'),
    show: false,
    root,
  });
}

describe.each(GROUPS)('with protections taken away', (...attacks) => {
  let found: VitestRun;
  beforeAll(async () => {
    await using tree = await plantMutants(attacks);
    found = await run(attacks, tree.root);
  }, RUN_MS_MAX);

  test.each(attacks)('$name: its test fails', ({ test: name }) => {
    const isNoticed = found.failed.some((failed) => failed.includes(name));
    expect([isNoticed, found.output]).toEqual([true, found.output]);
  });
});

test.each(['unit', 'integration'] as const)(
  'with all protections in place the same tests pass (%s)',
  { timeout: RUN_MS_MAX },
  async (project) => {
    const attacks = GROUPS.flat().filter((attack) => attack.project === project);
    await using tree = await plantMutants([]);
    const { tally, output } = await run(attacks, tree.root);
    expect([tally.failed, output]).toEqual([0, output]);
    expect(tally.passed).toBeGreaterThanOrEqual(attacks.length);
  },
);
