import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { BUILT_IN_PLANS } from '#core/domain/tenant/plan.ts';
import type { Checked } from '../fault/check.ts';
import type { LoadTenant } from '../fault/load-message.ts';
import { compareAccounts } from './compare-ledgers.ts';
import { openBackends, type Backends } from './backends.ts';
import { auditPosition } from './cluster/audit-log.ts';
import { openHelm, type Helm } from './cluster/helm.ts';
import { buildImages, TAGS } from './cluster/image.ts';
import { openKubectl, type Kubectl } from './cluster/kubectl.ts';
import { removeLeftovers } from './cluster/leftovers.ts';
import { connectVault } from './cluster/vault-login.ts';
import type { ClusterEnvironment } from './environment.ts';
import { loadTenant, LOAD_CHANNELS, startLoad, type RunningLoad } from './load.ts';
import type { EndToEndOptions } from './options.ts';
import { prepareRelease, type Release } from './release.ts';
import { createSender, type Sender } from './send.ts';
import {
  onboard,
  SIGN_IN_AUDIENCE,
  tenantManifest,
  type OnboardedTenant,
  type TenantSpec,
} from './tenant.ts';

/** Shared resources of the items. Expensive ones are created on first use and then kept. */
export type Stage = AsyncDisposable & {
  readonly environment: ClusterEnvironment;
  readonly options: EndToEndOptions;
  readonly kubectl: Kubectl;
  readonly helm: Helm;
  readonly backends: Backends;
  readonly sender: Sender;
  readonly folder: string;
  /** Prints figures below the line of a step. */
  readonly note: (line: string) => void;
  /** Offset at which this run's part of the audit log begins; undefined where there is none. */
  readonly auditFrom: number | undefined;
  /** Builds and loads both images. */
  readonly images: () => Promise<void>;
  /** Returns the installed release that most items use. */
  readonly release: () => Promise<Release>;
  /** Returns a second release, prepared beside the first. */
  readonly otherRelease: () => Promise<Release>;
  /** Applies a Tenant and takes the first steps of its owner. */
  readonly newTenant: (
    release: Release,
    name: string,
    spec?: TenantSpec,
    channels?: readonly string[],
  ) => Promise<OnboardedTenant>;
  /** Returns the tenants of the main release that share the load. */
  readonly loadSet: () => Promise<LoadSet>;
  readonly startLoad: () => Promise<RunningLoad>;
  /** Waits until no work is left and compares the ledgers of all loads so far. */
  readonly compare: () => Promise<Checked>;
  /** Ledger with the acknowledgements of all loads. */
  readonly ledger: string;
  /** All namespaces of this run. */
  readonly namespaces: readonly string[];
};

export type LoadSet = {
  readonly all: readonly LoadTenant[];
  readonly ordinary: readonly OnboardedTenant[];
  readonly daily: { readonly tenantId: string; readonly max: number };
  readonly perMinute: { readonly tenantId: string; readonly max: number };
};

const ORDINARY = 4;
const PER_DAY = 150;
const PER_MINUTE = 30;

export type StageInput = {
  readonly environment: ClusterEnvironment;
  readonly options: EndToEndOptions;
  readonly folder: string;
  readonly log: (line: string) => void;
  readonly note: (line: string) => void;
};

export async function openStage(input: StageInput): Promise<Stage> {
  const { environment, options, folder, log, note } = input;
  await using stack = new AsyncDisposableStack();
  await mkdir(folder, { recursive: true });
  const kubectl = openKubectl(environment.kubeconfig);
  const helm = await openHelm(environment.kubeconfig, folder, log);
  await removeLeftovers(kubectl, log);
  const auditFrom =
    environment.auditLog === undefined ? undefined : await auditPosition(environment.auditLog);
  const backends = stack.use(await openBackends(environment, folder, log));
  await connectVault(kubectl, backends.vault);
  const sender = createSender(backends.providerLedger);
  const ledger = join(folder, 'acknowledged.ndjson');
  const namespaces: string[] = [];
  const begunAt = Date.now();
  // The cluster's objects are removed before the servers stop, because finalizers need the servers.
  if (!options.keeps && !options.leaves) stack.defer(() => removeLeftovers(kubectl, log));

  const prepare = async (name: string, ownsDefinitions: boolean): Promise<Release> => {
    const common = { environment, kubectl, helm, backends, folder };
    const release = await prepareRelease({ ...common, name, ownsDefinitions });
    namespaces.push(release.namespace, release.tenantNamespace);
    return release;
  };
  const images = once(async () => {
    if (!options.reusesImages) await buildImages(environment, folder, log);
  });
  const release = once(async () => {
    await images();
    const main = await prepare('main', true);
    await main.deploy(TAGS.first);
    return main;
  });
  const otherRelease = once(() => prepare('other', false));

  const signIn = ({ sub, email }: { readonly sub: string; readonly email: string }): Promise<string> =>
    backends.oidc.mint({
      sub,
      email,
      emailVerified: true,
      audience: SIGN_IN_AUDIENCE,
      expiresInSeconds: 86_400,
    });
  const newTenant: Stage['newTenant'] = async ({ tenantNamespace, origin }, name, spec = {}, channels) => {
    await kubectl.apply(tenantManifest(tenantNamespace, name, spec));
    return onboard({ kubectl, origin: origin(), signIn }, tenantNamespace, name, channels);
  };
  const loadSet = once(async (): Promise<LoadSet> => {
    const main = await release();
    const planRef = { name: 'enterprise' };
    const limited = (name: string, limits: TenantSpec['limits'] = {}): Promise<OnboardedTenant> =>
      newTenant(main, name, { planRef, limits }, LOAD_CHANNELS);
    const names = Array.from({ length: ORDINARY }, (_, i) => `load-${i + 1}`);
    const ordinary = await Promise.all(names.map((name) => limited(name)));
    const daily = await limited('load-daily', { messagesPerDay: PER_DAY });
    const slow = await limited('load-slow', { sendRequestsPerMinute: PER_MINUTE });
    return {
      all: [
        ...ordinary.map((tenant) => loadTenant(tenant, 6)),
        loadTenant(daily, 2, ['daily_limit_reached']),
        loadTenant(slow, 2, ['rate_limited']),
      ],
      ordinary,
      daily: { tenantId: daily.id, max: PER_DAY },
      perMinute: { tenantId: slow.id, max: PER_MINUTE },
    };
  });

  const owned = stack.move();
  return {
    environment,
    options,
    kubectl,
    helm,
    backends,
    sender,
    folder,
    note,
    auditFrom,
    images,
    release,
    otherRelease,
    newTenant,
    loadSet,
    async startLoad() {
      const [main, { all }] = await Promise.all([release(), loadSet()]);
      const { rate: ratePerSecond, seed } = options;
      return startLoad({ origin: main.origin(), tenants: all, ratePerSecond, seed, ledger });
    },
    async compare() {
      const { daily, perMinute } = await loadSet();
      const { ask } = (await release()).own;
      const { providerLedger } = backends;
      return compareAccounts({
        ask,
        ledger,
        providerLedger,
        aside: sender.tokens,
        daily,
        perMinute,
        begunAt,
      });
    },
    ledger,
    namespaces,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Limits of the starter plan; an item overrides the limit that it tests. */
export const ROOMY_LIMITS = BUILT_IN_PLANS.starter;

/** A failed creation is not retried: later items fail at once with the same error. */
function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => (made ??= make());
}
