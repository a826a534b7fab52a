import type { KubeResource } from '../kube/kube-object.ts';
import { API_GROUP, API_VERSION } from './api-group.ts';
import type { CustomResource } from './custom-resource.ts';
import { PLAN } from './plan-resource.ts';
import { TENANT } from './tenant-resource.ts';

/** The API paths of our kinds. */
export const TENANTS = served(TENANT);
export const PLANS = served(PLAN);

function served({ plural, kind, scope }: CustomResource): KubeResource {
  return { group: API_GROUP, version: API_VERSION, plural, kind, namespaced: scope === 'Namespaced' };
}
