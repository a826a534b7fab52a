import { generateKeyPair, randomBytes, randomUUID } from 'node:crypto';
import { promisify } from 'node:util';
import type { Channel } from '#core/domain/message/channel.ts';
import type { ProviderAccount } from '../../deploy/quickstart/accounts.ts';
import { createApiClient, type ApiClient, type Caller } from '../../deploy/quickstart/api-client.ts';
import type { WebhookKeys } from '../../deploy/quickstart/verify-webhook.ts';
import { ensureTenant } from '../../deploy/quickstart/tenants.ts';
import type { Canary } from '../support/canaries.ts';
import { FIRST_ACCOUNTS, NEXT_ACCOUNTS } from './accounts.ts';
import type { LoadTenant } from './load-message.ts';
import { RECEIPT_TIMEOUT_MS } from './receipt-habits.ts';
import { setLimits } from './records.ts';
import type { Rig } from './rig.ts';

export type RigTenant = LoadTenant & { readonly slug: string; readonly ownerToken: string };

/** An endpoint that receives a tenant's events. */
export type RigEndpoint = {
  readonly id: string;
  readonly path: string;
  readonly keys: WebhookKeys;
  readonly caller: Caller;
};

export type TenantSet = {
  readonly all: readonly RigTenant[];
  /** Has a small daily message limit and several keys, so that messages of it are accepted in parallel. */
  readonly limited: RigTenant;
  readonly perDay: number;
  /** Has a small limit of requests per minute. */
  readonly slow: RigTenant;
  readonly perMinute: number;
  /** Its keys are replaced during a run. */
  readonly rotating: RigTenant;
  /** Is suspended during a run. */
  readonly suspended: RigTenant;
  /** Their routes have a receipt timeout. */
  readonly waitedFor: readonly RigTenant[];
  /** Endpoints of some tenants; the last one is ordered. */
  readonly endpoints: readonly RigEndpoint[];
  readonly canaries: readonly Canary[];
};

export type TenantInput = {
  readonly origin: string;
  readonly ask: Rig['ask'];
  readonly platformToken: string;
  readonly mint: (subject: string) => Promise<string>;
  readonly count: number;
  readonly receiverOrigin: string;
};

const CHANNELS: readonly Channel[] = ['sms', 'sms', 'email', 'push', 'whatsapp'];
const PER_DAY = 200;
/** One message for each api process, each with its own key, so that the two acceptances do not wait for the lock of a key. */
const BURST = 2;
const PER_MINUTE = 60;
const WEIGHT = 4;
const SMS_ROUTE = '/v1/admin/routes/sms';

/** Creates the tenants through the public API, with secrets that the suite can search for. */
export async function makeTenants(input: TenantInput): Promise<TenantSet> {
  const client = createApiClient(input.origin, () => {});
  const { privateKey } = await promisify(generateKeyPair)('rsa', { modulusLength: 2048 });
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
  const canaries: Canary[] = [
    { name: 'the private key of a push account', secret: pem.split('\n')[5] ?? pem },
    { name: 'a sign-in token of the platform', secret: signatureOf(input.platformToken) },
  ];

  async function make(options: {
    weight: number;
    burst?: number;
    keys?: number;
    expects?: readonly string[];
    channels?: readonly Channel[];
    limits?: Parameters<typeof setLimits>[2];
    receiptTimeoutMs?: number;
  }): Promise<RigTenant> {
    const slug = `t-${randomUUID().slice(0, 8)}`;
    const ownerToken = await input.mint(`owner-of-${slug}`);
    const { channels = CHANNELS, weight, burst = 1, keys = 1, expects = [] } = options;
    const accounts = accountsOf(pem, canaries).filter(({ channel }) => channels.includes(channel));
    const wanted = { slug, name: slug, ownerToken, accounts };
    const { id, serviceKey } = await ensureTenant(client, wanted, undefined, input.platformToken);
    const { receiptTimeoutMs = null } = options;
    const sms = accounts.find(({ channel }) => channel === 'sms');
    const providerId = sms && (await setRoute(client, { slug, ownerToken }, canaries, receiptTimeoutMs));
    await input.ask((sql) => setLimits(sql, id, options.limits));
    const more = Array.from({ length: keys - 1 }, (_, i) =>
      makeKey(client, { slug, ownerToken }, `key ${i}`),
    );
    const credentials = [
      { name: `${slug} 0`, key: serviceKey },
      ...(await Promise.all(more)).map(({ key }, i) => ({ name: `${slug} ${i + 1}`, key })),
    ];
    canaries.push({ name: 'a sign-in token', secret: signatureOf(ownerToken) });
    for (const { key } of credentials) canaries.push({ name: 'a service key', secret: secretOf(key) });
    const owner = { token: ownerToken, slug };
    const account = String(sms?.publicConfig['accountSid']);
    const waitedFor = providerId === undefined || receiptTimeoutMs === null ? null : { providerId, account };
    return { id, slug, ownerToken, owner, credentials, channels, weight, burst, expects, waitedFor };
  }

  const ordinary = Array.from({ length: input.count }, (_, i) =>
    make({ weight: WEIGHT, ...(i === 0 ? { receiptTimeoutMs: RECEIPT_TIMEOUT_MS } : {}) }),
  );
  const [limited, slow, rotating, suspended] = await Promise.all([
    make({
      weight: WEIGHT,
      keys: BURST,
      burst: BURST,
      channels: ['sms'],
      expects: ['daily_limit_reached'],
      limits: { messagesPerDay: PER_DAY },
    }),
    make({
      weight: 1,
      channels: ['sms'],
      expects: ['rate_limited'],
      limits: { sendRequestsPerMinute: PER_MINUTE },
    }),
    make({ weight: 1, expects: ['api_key_revoked'], receiptTimeoutMs: RECEIPT_TIMEOUT_MS }),
    make({ weight: 1, expects: ['tenant_suspended'] }),
  ]);
  const all = [...(await Promise.all(ordinary)), limited, slow, rotating, suspended];
  const endpoints = await Promise.all([
    makeEndpoint(client, input.receiverOrigin, suspended, canaries, false),
    makeEndpoint(client, input.receiverOrigin, limited, canaries, false),
    makeEndpoint(client, input.receiverOrigin, rotating, canaries, true),
  ]);
  return {
    endpoints,
    all,
    limited,
    perDay: PER_DAY,
    slow,
    perMinute: PER_MINUTE,
    rotating,
    suspended,
    waitedFor: all.filter(({ waitedFor }) => waitedFor !== null),
    canaries,
  };
}

/**
 * Adds a second sms account, to which messages fail over after a refusal by the first account or a receipt timeout.
 * @returns the first account's id.
 */
async function setRoute(
  client: ApiClient,
  { slug, ownerToken }: Pick<RigTenant, 'slug' | 'ownerToken'>,
  canaries: Canary[],
  receiptTimeoutMs: number | null,
): Promise<string> {
  const caller = { token: ownerToken, tenantSlug: slug };
  type Listed = { readonly items: readonly { readonly id: string; readonly channel: Channel }[] };
  const { items } = await client.call<Listed>(caller, 'GET', '/v1/admin/providers?limit=200');
  const first = items.find(({ channel }) => channel === 'sms');
  const { provider, label, publicConfig, secretConfig } = smsAccount('sms, second', NEXT_ACCOUNTS, canaries);
  const body = { provider, label, publicConfig, secretConfig: await secretConfig() };
  const { id } = await client.call<{ readonly id: string }>(caller, 'POST', '/v1/admin/providers', body);
  const steps = [{ providerId: first?.id }, { providerId: id }];
  await client.call(caller, 'PUT', SMS_ROUTE, { strategy: 'priority', steps, receiptTimeoutMs });
  return first?.id ?? '';
}

/** Removes the receipt timeout from the tenant's route and leaves the rest of the route. */
export async function endReceiptTimeout(
  client: ApiClient,
  { slug, ownerToken }: Pick<RigTenant, 'slug' | 'ownerToken'>,
): Promise<void> {
  const caller = { token: ownerToken, tenantSlug: slug };
  type Route = { readonly strategy: string; readonly steps: readonly object[] };
  const { strategy, steps } = await client.call<Route>(caller, 'GET', SMS_ROUTE);
  await client.call(caller, 'PUT', SMS_ROUTE, { strategy, steps });
}

/** Creates an endpoint for all events of the tenant; each call carries a secret header beside its signature. */
async function makeEndpoint(
  client: ApiClient,
  origin: string,
  { slug, ownerToken }: RigTenant,
  canaries: Canary[],
  ordered: boolean,
): Promise<RigEndpoint> {
  const caller = { token: ownerToken, tenantSlug: slug };
  const path = `/${slug}`;
  const token = randomBytes(16).toString('hex');
  const body = { url: origin + path, eventTypes: ['*'], ordered, headers: { 'x-token': token } };
  type Created = { readonly id: string; readonly secret: string };
  const { id, secret } = await client.call<Created>(caller, 'POST', '/v1/admin/webhook-endpoints', body);
  canaries.push(
    { name: 'the secret of an endpoint', secret: secret.replace('whsec_', '') },
    { name: 'a header of an endpoint', secret: token, legal: ['table webhook_endpoints.headers'] },
  );
  return { id, path, keys: { endpointId: id, secrets: [secret], publicKeys: [] }, caller };
}

export async function makeKey(
  client: ApiClient,
  { slug, ownerToken }: Pick<RigTenant, 'slug' | 'ownerToken'>,
  name: string,
): Promise<{ readonly id: string; readonly key: string }> {
  return client.call({ token: ownerToken, tenantSlug: slug }, 'POST', '/v1/admin/api-keys', { name });
}

/** Returns the secret part of a service key. The rest identifies the key in lists and logs. */
export function secretOf(serviceKey: string): string {
  return serviceKey.split('_')[3] ?? serviceKey;
}

/** Returns the signature of a token, without which the token is useless. */
function signatureOf(token: string): string {
  return token.split('.')[2] ?? token;
}

function planted(canaries: Canary[], name: string, secret: string): string {
  canaries.push({ name: `the credential of a ${name} account`, secret });
  return secret;
}

/** @param beginning prefix of the account's id at its provider. */
function smsAccount(label: string, beginning: string, canaries: Canary[]): ProviderAccount {
  const accountSid =
    beginning +
    randomBytes(16)
      .toString('hex')
      .slice(beginning.length - 2);
  return {
    channel: 'sms',
    provider: 'twilio',
    label,
    publicConfig: { accountSid, from: '+15005550006' },
    secretConfig: async () => ({ authToken: planted(canaries, 'twilio', randomBytes(16).toString('hex')) }),
  };
}

function accountsOf(pem: string, canaries: Canary[]): ProviderAccount[] {
  const id = randomBytes(8).toString('hex');
  return [
    smsAccount('sms', FIRST_ACCOUNTS, canaries),
    {
      channel: 'email',
      provider: 'sendgrid',
      label: 'email',
      publicConfig: {},
      secretConfig: async () => {
        const [first, second] = [
          randomBytes(16).toString('base64url'),
          randomBytes(32).toString('base64url'),
        ];
        return { apiKey: planted(canaries, 'sendgrid', `SG.${first}.${second}`) };
      },
    },
    {
      channel: 'push',
      provider: 'fcm',
      label: 'push',
      publicConfig: { projectId: `push-${id}`, clientEmail: `despatch@push-${id}.iam.gserviceaccount.com` },
      secretConfig: async () => ({ privateKey: pem }),
    },
    {
      channel: 'whatsapp',
      provider: 'whatsapp-cloud',
      label: 'whatsapp',
      publicConfig: { phoneNumberId: String(BigInt(`0x${id}`)).slice(0, 15) },
      secretConfig: async () => ({
        accessToken: planted(canaries, 'whatsapp', `EAA${randomBytes(48).toString('hex')}`),
      }),
    },
  ];
}
