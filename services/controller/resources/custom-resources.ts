import type { CustomResource } from './custom-resource.ts';
import { PLAN } from './plan-resource.ts';
import { TENANT } from './tenant-resource.ts';

/** All kinds of the group. */
export const CUSTOM_RESOURCES: readonly CustomResource[] = [PLAN, TENANT];
