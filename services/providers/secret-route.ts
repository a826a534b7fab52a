import { isDeepStrictEqual } from 'node:util';
import type { AnyProvider } from './provider.ts';
import { parseSettings } from './registry.ts';

/**
 * Returns the settings, as `publicConfig.x`, whose change would send an account's secrets elsewhere or in another way. Compares
 * parsed values with defaults applied. If the stored settings cannot be parsed any more, every setting counts as changed.
 * @param before as stored.
 * @param after valid settings as sent.
 */
export function secretRouteChanges(
  provider: AnyProvider,
  before: unknown,
  after: unknown,
): readonly string[] {
  const old = parseSettings(provider, before);
  const next = parseSettings(provider, after);
  return Object.entries(provider.secretRoute)
    .filter(([field, part]) => {
      if (part === false) return false;
      if (!old.ok || !next.ok) return true;
      const valueIn = (config: Record<string, unknown>) =>
        part === true ? config[field] : part(config as never);
      return !isDeepStrictEqual(valueIn(old.value), valueIn(next.value));
    })
    .map(([field]) => `publicConfig.${field}`);
}
