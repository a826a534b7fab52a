import { nearName } from '#core/domain/text/near-name.ts';
import { unknownField, type Warning } from '#core/domain/fault/warning.ts';
import type { AnyProvider, FieldFault } from './provider.ts';
import { snakeCase } from './registry.ts';

type Sent = Readonly<Record<string, unknown>>;

/**
 * Returns a warning for each key sent with an account that nothing reads, likely typos first. Of `secretConfig` it repeats
 * only known names, since an unknown key may be part of a secret.
 */
export function configWarnings(
  provider: AnyProvider,
  publicConfig: Sent,
  secretConfig: Sent = {},
): readonly Warning[] {
  const settings = Object.keys(provider.config.shape);
  const ofConfig = strayKeys(settings, publicConfig).map((key) =>
    unknownField('publicConfig.', key, settings, 'setting'),
  );
  const secrets = Object.keys(provider.secrets.shape);
  const ofSecrets = strayKeys(secrets, secretConfig).map((key) => {
    const near = nearName(key, secrets);
    const message = `Has an unknown field, ignored${near === undefined ? '' : `: ${near.hint}`}`;
    return { warning: { field: 'secretConfig', message }, isNear: near !== undefined };
  });
  return [...ofConfig, ...ofSecrets]
    .toSorted((a, b) => Number(b.isNear) - Number(a.isNear))
    .map(({ warning }) => warning);
}

/**
 * Returns a fault for each secret found among the settings, including under a misspelled name: settings are stored and
 * shown in plain text, so the account is refused before that.
 */
export function misplacedSecrets(provider: AnyProvider, publicConfig: Sent): readonly FieldFault[] {
  const settings = Object.keys(provider.config.shape);
  const strays = presentKeys(publicConfig).filter((key) => nearName(key, settings) === undefined);
  return Object.keys(provider.secrets.shape)
    .filter((secret) => strays.some((key) => nearName(key, [secret]) !== undefined))
    .map((key) => ({
      field: `publicConfig.${key}`,
      rule: 'secret',
      message: 'Belongs in secretConfig: settings are stored and shown as they are',
    }));
}

function strayKeys(known: readonly string[], sent: Sent): string[] {
  const read = new Set(known.flatMap((key) => [key, snakeCase(key)]));
  return presentKeys(sent).filter((key) => !read.has(key));
}

/** A field that is null is absent. */
function presentKeys(sent: Sent): string[] {
  return Object.keys(sent).filter((key) => sent[key] !== null);
}
