import { calledHost, HOST_BLOCKED, type IsBlockedHost } from '#core/domain/account/tenant-host.ts';
import type { AnyProvider, FieldFault } from './provider.ts';

/**
 * Returns the fault of settings that name an address which must not be called; undefined for others. A host name is not resolved
 * here: its addresses are checked when it is called.
 * @param config valid settings, as the provider's schema returns them.
 */
export function tenantHostFault(
  { tenantHost }: Pick<AnyProvider, 'tenantHost'>,
  config: Record<string, unknown>,
  isBlockedHost: IsBlockedHost,
): FieldFault | undefined {
  if (tenantHost === undefined || !isBlockedHost(calledHost(tenantHost.hostOf(config as never))))
    return undefined;
  return { field: `publicConfig.${tenantHost.setting}`, ...HOST_BLOCKED };
}
