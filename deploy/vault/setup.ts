// Prepares a Vault for Despatch: transit, AppRole, one policy and one role per service. Run it with VAULT_ADDR and
// VAULT_TOKEN; it may be run again, and then only gives out new secret ids. The credentials go to standard output as JSON.
import { readFile } from 'node:fs/promises';

export const VAULT_SERVICES = ['api', 'worker', 'controller'] as const;
export type VaultService = (typeof VAULT_SERVICES)[number];

export type VaultSetup = {
  readonly address: string;
  /** A token that may mount engines and write policies. */
  readonly rootToken: string;
  /** Mount path of the transit engine. Default `transit`. */
  readonly transitMount?: string;
  /** Mount path of AppRole. Default `approle`. */
  readonly approleMount?: string;
  /** Policies and roles are named this and the service. Default `despatch-`. */
  readonly namePrefix?: string;
  /** Tokens live this long and are renewed. Default 3,600. */
  readonly tokenTtlSeconds?: number;
  /** A token is renewed up to this age. Default 86,400. */
  readonly tokenMaxTtlSeconds?: number;
  readonly tokenType?: 'service' | 'batch';
};

export type AppRoleCredentials = { readonly roleId: string; readonly secretId: string };

type Call = (method: string, path: string, body?: unknown) => Promise<{ status: number; body: unknown }>;

/** Idempotent. @throws when Vault refuses a step. */
export async function configureVault(setup: VaultSetup): Promise<Record<VaultService, AppRoleCredentials>> {
  const { transitMount = 'transit', approleMount = 'approle', namePrefix = 'despatch-' } = setup;
  const call = caller(setup);
  await mount(call, `sys/mounts/${transitMount}`, 'transit');
  await mount(call, `sys/auth/${approleMount}`, 'approle');
  const credentials: Partial<Record<VaultService, AppRoleCredentials>> = {};
  for (const service of VAULT_SERVICES) {
    const name = `${namePrefix}${service}`;
    await done(call('PUT', `sys/policies/acl/${name}`, { policy: await readPolicy(service, transitMount) }));
    await done(
      call('POST', `auth/${approleMount}/role/${name}`, {
        token_policies: [name],
        token_ttl: setup.tokenTtlSeconds ?? 3_600,
        token_max_ttl: setup.tokenMaxTtlSeconds ?? 86_400,
        token_type: setup.tokenType ?? 'service',
      }),
    );
    const role = await done(call('GET', `auth/${approleMount}/role/${name}/role-id`));
    const secret = await done(call('POST', `auth/${approleMount}/role/${name}/secret-id`, {}));
    credentials[service] = { roleId: textAt(role, 'role_id'), secretId: textAt(secret, 'secret_id') };
  }
  return credentials as Record<VaultService, AppRoleCredentials>;
}

async function readPolicy(service: VaultService, transitMount: string): Promise<string> {
  const policy = await readFile(new URL(`${service}.hcl`, import.meta.url), 'utf8');
  return policy.replaceAll('path "transit/', `path "${transitMount}/`);
}

async function mount(call: Call, path: string, type: string): Promise<void> {
  const answer = await call('POST', path, { type });
  // 400 says that the path is in use, which is what a second run finds.
  if (answer.status !== 400) await done(Promise.resolve(answer));
}

async function done(answer: ReturnType<Call>): Promise<unknown> {
  const { status, body } = await answer;
  if (status >= 300) throw new Error(`Vault answered ${status}: ${JSON.stringify(body)}`);
  return body;
}

function textAt(body: unknown, name: string): string {
  const value = (body as { data?: Record<string, unknown> } | null)?.data?.[name];
  if (typeof value !== 'string') throw new Error(`Vault gave no ${name}`);
  return value;
}

function caller({ address, rootToken }: VaultSetup): Call {
  return async (method, path, body) => {
    const response = await fetch(`${address}/v1/${path}`, {
      method,
      headers: { 'x-vault-token': rootToken },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(20_000),
    });
    const text = await response.text();
    return { status: response.status, body: text === '' ? null : (JSON.parse(text) as unknown) };
  };
}

if (import.meta.main) {
  const address = process.env['VAULT_ADDR'];
  const rootToken = process.env['VAULT_TOKEN'];
  if (address === undefined || rootToken === undefined) throw new Error('Set VAULT_ADDR and VAULT_TOKEN');
  process.stdout.write(`${JSON.stringify(await configureVault({ address, rootToken }), null, 2)}\n`);
}
