import { z } from 'zod';
import type { Channel } from '#core/domain/message/channel.ts';
import type { Engagement } from '#core/domain/receipts/engagement.ts';
import { ruleText } from '#core/domain/text/rule-text.ts';
import { unsupportedFields } from './guide.ts';
import type { AnyProvider, FieldFault } from './provider.ts';
import type { ReceiptDefinition, ReceiptSetup } from './receipt.ts';
import { PROVIDERS, type ProviderKind } from './registry.gen.ts';

/** Returns the catalog's provider with this id. */
export function findProvider(id: string): AnyProvider | undefined {
  return PROVIDERS.get(id);
}

/** Returns the simulator that serves a channel's test mode. */
export function simulatorFor(channel: Channel): AnyProvider {
  const id: ProviderKind = `simulator-${channel}`;
  const simulator = PROVIDERS.get(id);
  if (simulator === undefined) throw new Error(`The catalog lacks ${id}`);
  return simulator;
}

export type ParsedAccount =
  | { readonly ok: true; readonly config: Record<string, unknown>; readonly secrets: Record<string, unknown> }
  | { readonly ok: false; readonly details: readonly FieldFault[] };

export type ParsedHalf =
  | { readonly ok: true; readonly value: Record<string, unknown> }
  | { readonly ok: false; readonly details: readonly FieldFault[] };

/**
 * Parses both halves of an account as sent by the tenant: known keys in camelCase or snake_case; unknown keys are ignored.
 * Faults name a field (`publicConfig.accountSid`) and a rule, never a value. The result can be parsed again, so either form
 * may be stored.
 */
export function parseAccount(
  provider: AnyProvider,
  publicConfig: unknown,
  secretConfig: unknown,
): ParsedAccount {
  const config = parsePublicConfig(provider, publicConfig);
  const secrets = parseSecretConfig(provider, secretConfig);
  if (!config.ok || !secrets.ok) {
    return { ok: false, details: [config, secrets].flatMap((half) => (half.ok ? [] : half.details)) };
  }
  const account = { config: config.value, secrets: secrets.value };
  const faults = provider.check?.(account as never) ?? [];
  return faults.length === 0 ? { ok: true, ...account } : { ok: false, details: faults };
}

/** Parses the non-secret half only, for a change that keeps the stored secrets. */
export function parsePublicConfig(provider: AnyProvider, publicConfig: unknown): ParsedHalf {
  const config = parseSettings(provider, publicConfig);
  if (!config.ok) return config;
  // Here and not in `parseAccount`: otherwise a change that keeps the secret could store settings that no worker can use.
  const faults = provider.checkConfig?.(config.value as never) ?? [];
  return faults.length === 0 ? config : { ok: false, details: faults };
}

/** Parses each setting on its own, in order to compare settings that may not fit together. */
export function parseSettings(provider: AnyProvider, publicConfig: unknown): ParsedHalf {
  return parseHalf('publicConfig', provider.config, publicConfig);
}

/** Parses the secret half only. */
function parseSecretConfig(provider: AnyProvider, secretConfig: unknown): ParsedHalf {
  return parseHalf('secretConfig', provider.secrets, secretConfig);
}

/** How a vendor gets the receipt URL, if it reports at all. */
export type ShownReceiptSetup = {
  readonly mode: ReceiptSetup['mode'] | 'none';
  readonly steps: string[];
};

export type ProviderDescription = {
  readonly provider: string;
  readonly channel: Channel;
  readonly name: string;
  /** JSON Schema, draft 2020-12. */
  readonly publicConfigSchema: Record<string, unknown>;
  readonly secretConfigSchema: Record<string, unknown>;
  /** Settings whose change requires `secretConfig` again. */
  readonly secretRoute: string[];
  readonly receiptSetup: ShownReceiptSetup;
  readonly capabilities: {
    readonly dedupe: AnyProvider['dedupe'];
    readonly receipts: boolean;
    readonly lookup: 'id' | 'reference' | 'none';
    readonly bodyCharactersMax: number | null;
    /** Recipient events reported in addition to the state. */
    readonly engagement: Engagement[];
    /** Message fields that the provider does not support. */
    readonly unsupportedFields: string[];
  };
  /** Path of the provider's documentation page. */
  readonly page: string;
};

/** A receipt definition without its account types. */
export type AnyReceipts = ReceiptDefinition<never, never>;

/** Returns undefined when the vendor does not call a receipt URL. */
export function receiptsOf(provider: Pick<AnyProvider, 'receipts'> | undefined): AnyReceipts | undefined {
  const receipts = provider?.receipts;
  return receipts === undefined || receipts === null || receipts === 'simulated' ? undefined : receipts;
}

/** Returns the receipt setup as shown in the catalog and in account records. */
export function receiptSetupOf(provider: Pick<AnyProvider, 'receipts'> | undefined): ShownReceiptSetup {
  const { mode, steps } = receiptsOf(provider)?.setup ?? { mode: 'none', steps: [] };
  return { mode, steps: [...steps] };
}

/** Returns whether a message may get another state after `sent`. */
export function reportsDeliveries({ receipts }: Pick<AnyProvider, 'receipts'>): boolean {
  return receipts !== null;
}

/** Returns the ids of the providers that support lookups. */
export function askableProviders(): string[] {
  return [...PROVIDERS.values()].filter(({ lookup }) => lookup !== undefined).map(({ id }) => id);
}

/** Returns, per provider, the maximum number of concurrent lookups for one account. */
export function lookupPaces(): { readonly provider: string; readonly most: number }[] {
  return [...PROVIDERS.values()].flatMap(({ id, lookup }) =>
    lookup === undefined ? [] : [{ provider: id, most: lookup.pace.atOnce }],
  );
}

/** Returns the ids of the providers whose calls to receipt URLs can be parsed. */
export function reportingProviders(): string[] {
  return [...PROVIDERS.values()].filter((provider) => receiptsOf(provider) !== undefined).map(({ id }) => id);
}

/** Returns whether receipts may lack our message id, so that the provider's id must be searchable. */
export function namesItsOwnIdAlone(provider: Pick<AnyProvider, 'receipts'> | undefined): boolean {
  return receiptsOf(provider)?.mayLackReference === true;
}

/** Returns the path of a provider's documentation page on the api. */
export function pagePath(id: string): string {
  return `/docs/providers/${id}`;
}

/** Returns a provider as the catalog endpoint shows it. */
export function describeProvider(provider: AnyProvider): ProviderDescription {
  return {
    provider: provider.id,
    channel: provider.channel,
    name: provider.name,
    publicConfigSchema: z.toJSONSchema(provider.config, { io: 'input' }),
    secretConfigSchema: z.toJSONSchema(provider.secrets, { io: 'input' }),
    secretRoute: Object.keys(provider.secretRoute).filter((field) => provider.secretRoute[field] !== false),
    receiptSetup: receiptSetupOf(provider),
    capabilities: {
      dedupe: provider.dedupe,
      receipts: reportsDeliveries(provider),
      lookup: provider.lookup?.by ?? 'none',
      bodyCharactersMax: provider.bodyCharactersMax,
      engagement: [...(receiptsOf(provider)?.engagement ?? [])],
      unsupportedFields: unsupportedFields(provider.guide),
    },
    page: pagePath(provider.id),
  };
}

function parseHalf(half: string, schema: z.ZodObject, sent: unknown): ParsedHalf {
  if (typeof sent !== 'object' || sent === null || Array.isArray(sent)) {
    return { ok: false, details: [{ field: half, rule: 'type', message: 'Must be an object' }] };
  }
  const known = pickKnown(half, Object.keys(schema.shape), sent as Record<string, unknown>);
  if (!known.ok) return known;
  const parsed = schema.safeParse(known.value, { error: ruleText });
  if (parsed.success) return { ok: true, value: parsed.data };
  return { ok: false, details: parsed.error.issues.map((issue) => faultOf(half, issue, known.value)) };
}

/**
 * The camelCase and snake_case spellings of a key are one field; sending both with different values is a fault. A field that is null
 * is absent.
 */
function pickKnown(half: string, keys: readonly string[], sent: Record<string, unknown>): ParsedHalf {
  const details: FieldFault[] = [];
  const value: Record<string, unknown> = {};
  for (const key of keys) {
    const given = [...new Set([key, snakeCase(key)])].filter(
      (spelling) => Object.hasOwn(sent, spelling) && sent[spelling] !== null,
    );
    const [first, second] = given.map((spelling) => sent[spelling]);
    if (given.length === 2 && JSON.stringify(first) !== JSON.stringify(second)) {
      details.push({
        field: `${half}.${key}`,
        rule: 'conflict',
        message: 'Both spellings of the field are present with different values',
      });
    }
    if (given.length > 0) value[key] = first;
  }
  return details.length === 0 ? { ok: true, value } : { ok: false, details };
}

export function snakeCase(key: string): string {
  return key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

const RULES: Readonly<Record<string, string>> = {
  invalid_type: 'type',
  too_small: 'min',
  too_big: 'max',
  invalid_format: 'format',
  invalid_value: 'enum',
};

function faultOf(half: string, issue: z.core.$ZodIssue, sent: Record<string, unknown>): FieldFault {
  const field = [half, ...issue.path.map(String)].join('.');
  const isMissing = issue.path.length === 1 && sent[String(issue.path[0])] === undefined;
  if (isMissing)
    return {
      field,
      rule: 'required',
      message: issue.code === 'custom' ? issue.message : `Field '${field}' is required`,
    };
  return { field, rule: RULES[issue.code] ?? 'invalid', message: issue.message };
}
