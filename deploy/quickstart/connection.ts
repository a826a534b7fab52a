import type { StandInId } from './vendors.ts';

/** What a program needs to use the running quick start: the content of `quickstart.json`. */
export type Connection = {
  readonly baseUrl: string;
  readonly metricsUrls: { readonly api: string; readonly worker: string };
  readonly tenantSlug: string;
  readonly serviceKey: string;
  /** A test key of the same tenant; no provider is called, and the recipient selects the outcome. */
  readonly testKey: string;
  /** An owner of the tenant who is not a platform admin. */
  readonly adminToken: string;
  readonly platformToken: string;
  /** A viewer of the tenant. */
  readonly viewerToken: string;
  /** A tenant with its own providers; its admin is not a member of the first tenant. */
  readonly otherTenant: { readonly slug: string; readonly serviceKey: string; readonly adminToken: string };
  readonly inboxUrl: string;
  /**
   * By catalog id: the stand-in that receives the messages of every provider of this kind; `/received` returns all its
   * requests. The inbox replaces mail servers; simulators call nobody, so their stand-in stays empty.
   */
  readonly providerUrls: Readonly<Record<StandInId | 'smtp', string>>;
  /**
   * Accepts events at any path and shows them with the result of the signature check; as JSON at `/received`. Each tenant
   * has an endpoint at the path of its slug.
   */
  readonly webhookReceiverUrl: string;
};
