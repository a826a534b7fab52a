import type { StandInId } from './vendors.ts';

/** What a program needs to use the running quick start: the content of `quickstart.json`. */
export type Connection = {
  readonly baseUrl: string;
  readonly metricsUrls: { readonly api: string; readonly worker: string };
  readonly tenantSlug: string;
  readonly serviceKey: string;
  /** Of the same tenant; calls no provider, and the recipient chooses the outcome. */
  readonly testKey: string;
  /** An owner of the tenant, not a platform admin. */
  readonly adminToken: string;
  readonly platformToken: string;
  /** A viewer of the tenant. */
  readonly viewerToken: string;
  /** With providers of its own; its admin is no member of the first tenant. */
  readonly otherTenant: { readonly slug: string; readonly serviceKey: string; readonly adminToken: string };
  readonly inboxUrl: string;
  /**
   * By catalog id: the stand-in that takes the messages of every provider of that kind, with all that it was sent at
   * `/received`. Mail servers have the inbox in its place; simulators call nobody, so theirs
   * stays empty.
   */
  readonly providerUrls: Readonly<Record<StandInId | 'smtp', string>>;
  /**
   * Takes events at whatever path an endpoint names, and shows them with what their signatures are worth; as JSON at
   * `/received`. Each tenant has an endpoint at the path of its slug.
   */
  readonly webhookReceiverUrl: string;
};
