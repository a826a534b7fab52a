import { hostname } from 'node:os';
import { defineEnvGroup, parseEnvironment, type ConfigOf } from '#core/platform/config/config.ts';
import { flag, list, optional, text, whole } from '#core/platform/config/variables.ts';
import {
  keyringEnv,
  natsEnv,
  observabilityEnv,
  postgresEnv,
  runtimeEnv,
} from '#core/platform/config/environment.ts';
import type { VaultConfig } from '#core/platform/vault/keyring.ts';
import { DNS_LABEL } from './resources/fields.ts';

const SUBDOMAIN = /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/;

const clusterEnv = defineEnvGroup({
  title: 'Cluster',
  shape: {
    KUBECONFIG: optional(
      text("File that says how to reach the cluster. Absent: the pod's own service account.", {
        pattern: /^\/[^\0\r\n]*$/,
        rule: 'must be an absolute path',
        type: 'path',
      }),
    ),
    WATCH_NAMESPACES: list('Namespaces whose Tenants are reconciled. Empty: all.', {
      item: (name) => DNS_LABEL.test(name),
      rule: 'must be a list of namespaces',
    }),
    CONTROLLER_NAME: text(
      'Identifies this release within the cluster; part of the finalizer it sets on Plans.',
      {
        pattern: /^[a-z0-9]([a-z0-9.-]{0,48}[a-z0-9])?$/,
        rule: 'must be 1 to 50 of a-z, 0-9, `.` and `-`, letters or digits at both ends',
        default: 'despatch',
      },
    ),
    POD_NAMESPACE: text('Namespace of the lease.', {
      pattern: DNS_LABEL,
      rule: 'must be a namespace',
      default: 'default',
    }),
    POD_NAME: optional(text('Names this process in the lease. Absent: the host name, in a cluster the pod.')),
    OIDC_ISSUER: text("OIDC issuer of the Tenants' `owners`; the same as the api's.", {
      pattern: /^https?:\/\/\S+$/,
      rule: 'must be an http or https URL',
      type: 'URL',
    }),
  },
  build: (e) => ({
    kubeconfig: e.KUBECONFIG,
    watchNamespaces: [...new Set(e.WATCH_NAMESPACES)],
    controllerName: e.CONTROLLER_NAME,
    namespace: e.POD_NAMESPACE,
    identity: e.POD_NAME ?? hostname(),
    issuer: e.OIDC_ISSUER,
  }),
});

const reconcilingEnv = defineEnvGroup({
  title: 'Reconciling',
  shape: {
    LEADER_ELECTION: flag('Elect a leader among several replicas. False: run only one.', true),
    LEASE_NAME: text('Name of the lease.', {
      pattern: SUBDOMAIN,
      rule: 'must be a name of a resource',
      default: 'despatch-controller',
    }),
    LEASE_DURATION_SECONDS: whole(
      'How long other replicas wait after the last renewal of the lease, in seconds.',
      {
        min: 2,
        max: 3_600,
        default: 15,
      },
    ),
    LEASE_RENEW_DEADLINE_SECONDS: whole(
      'How long the leader keeps trying to renew the lease before it exits, in seconds.',
      {
        min: 1,
        max: 3_600,
        default: 10,
      },
    ),
    LEASE_RETRY_PERIOD_SECONDS: whole(
      'Interval between attempts to acquire or renew the lease, in seconds.',
      {
        min: 1,
        max: 600,
        default: 2,
      },
    ),
    RECONCILE_CONCURRENCY: whole('Tenants that are reconciled at once.', { min: 1, max: 100, default: 4 }),
    RESYNC_SECONDS: whole('Resync interval in seconds, ±20 %.', {
      min: 5,
      max: 86_400,
      default: 300,
    }),
    SHUTDOWN_GRACE_MS: whole('Maximum wait for reconciles in progress at shutdown, in milliseconds.', {
      min: 0,
      max: 600_000,
      default: 25_000,
    }),
  },
  build(e, { fault }) {
    if (e.LEASE_RENEW_DEADLINE_SECONDS >= e.LEASE_DURATION_SECONDS)
      fault('LEASE_RENEW_DEADLINE_SECONDS', 'must be less than LEASE_DURATION_SECONDS');
    if (e.LEASE_RETRY_PERIOD_SECONDS * 1.2 >= e.LEASE_RENEW_DEADLINE_SECONDS)
      fault('LEASE_RETRY_PERIOD_SECONDS', 'must be well below LEASE_RENEW_DEADLINE_SECONDS');
    return {
      election: {
        isOn: e.LEADER_ELECTION,
        leaseName: e.LEASE_NAME,
        durationMs: e.LEASE_DURATION_SECONDS * 1_000,
        renewDeadlineMs: e.LEASE_RENEW_DEADLINE_SECONDS * 1_000,
        retryPeriodMs: e.LEASE_RETRY_PERIOD_SECONDS * 1_000,
      },
      concurrency: e.RECONCILE_CONCURRENCY,
      resyncMs: e.RESYNC_SECONDS * 1_000,
      shutdownGraceMs: e.SHUTDOWN_GRACE_MS,
    };
  },
});

/** Keys exist only in Vault: a controller cannot work with a local keyring. */
const vaultEnv = defineEnvGroup({
  ...keyringEnv,
  build(e, context): VaultConfig {
    const keyring = keyringEnv.build(e, context);
    if (keyring.kind === 'local') context.fault('KEYRING', 'must be vault for the controller');
    // Safe cast: on a fault no configuration is returned.
    return keyring as VaultConfig;
  },
});

export const controllerEnvironment = {
  runtime: runtimeEnv,
  postgres: postgresEnv,
  nats: natsEnv,
  keyring: vaultEnv,
  cluster: clusterEnv,
  reconciling: reconcilingEnv,
  observability: observabilityEnv,
};

export type ControllerConfig = ConfigOf<typeof controllerEnvironment>;

/** @throws ConfigurationError naming all faults together. */
export function controllerConfig(env: NodeJS.ProcessEnv): ControllerConfig {
  return parseEnvironment(controllerEnvironment, env);
}
