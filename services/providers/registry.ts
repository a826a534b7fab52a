import { z } from 'zod';
import type { Channel } from '#core/domain/channel.ts';
import type { Engagement } from '#core/domain/engagement.ts';
import { unsupportedFields } from './guide.ts';
import type { AnyProvider, FieldFault } from './provider.ts';
import type { ReceiptDefinition, ReceiptSetup } from './receipt.ts';
import { PROVIDERS, type ProviderKind } from './registry.gen.ts';

/** The provider of the catalog with this id. */
export function findProvider(id: string): AnyProvider | undefined {
  return PROVIDERS.get(id);
}

/** The simulator that serves a channel's test mode. */
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
 * Reads both halves of an account as sent by the tenant: known keys in camelCase or snake_case, unknown keys ignored.
 * Faults name a field (`publicConfig.accountSid`) and a rule, never a value. What comes out may be parsed again, so it
 * does not matter whether the sent or the parsed form was stored.
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

/** The non-secret half alone, for a change that leaves the stored secrets as they are. */
export function parsePublicConfig(provider: AnyProvider, publicConfig: unknown): ParsedHalf {
  return parseHalf('publicConfig', provider.config, publicConfig);
}

/** The secret half alone. */
function parseSecretConfig(provider: AnyProvider, secretConfig: unknown): ParsedHalf {
  return parseHalf('secretConfig', provider.secrets, secretConfig);
}

/** How a vendor learns of the receipt URL, if it does. */
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
  /** Settings that a change of needs `secretConfig` again. */
  readonly secretRoute: string[];
  readonly receiptSetup: ShownReceiptSetup;
  readonly capabilities: {
    readonly dedupe: AnyProvider['dedupe'];
    readonly receipts: boolean;
    readonly lookup: 'id' | 'reference' | 'none';
    readonly bodyCharactersMax: number | null;
    /** What it tells of recipients beside the state. */
    readonly engagement: Engagement[];
    /** Fields of a message that it has no place for. */
    readonly unsupportedFields: string[];
  };
  /** Path of its page. */
  readonly page: string;
};

/** How a provider reports, its account types forgotten. */
export type AnyReceipts = ReceiptDefinition<never, never>;

/** Undefined where the vendor calls no receipt URL. */
export function receiptsOf(provider: Pick<AnyProvider, 'receipts'> | undefined): AnyReceipts | undefined {
  const receipts = provider?.receipts;
  return receipts === undefined || receipts === null || receipts === 'simulated' ? undefined : receipts;
}

/** What the catalog and the records of accounts say of it. */
export function receiptSetupOf(provider: Pick<AnyProvider, 'receipts'> | undefined): ShownReceiptSetup {
  const { mode, steps } = receiptsOf(provider)?.setup ?? { mode: 'none', steps: [] };
  return { mode, steps: [...steps] };
}

/** Whether `sent` need not be the last word on a message. */
export function reportsDeliveries({ receipts }: Pick<AnyProvider, 'receipts'>): boolean {
  return receipts !== null;
}

/** Ids of the providers that can be asked what became of a message. */
export function askableProviders(): string[] {
  return [...PROVIDERS.values()].filter(({ lookup }) => lookup !== undefined).map(({ id }) => id);
}

/** How many questions at once each of them is asked about the messages of one account. */
export function lookupPaces(): { readonly provider: string; readonly most: number }[] {
  return [...PROVIDERS.values()].flatMap(({ id, lookup }) =>
    lookup === undefined ? [] : [{ provider: id, most: lookup.pace.atOnce }],
  );
}

/** Ids of the providers whose calls to receipt URLs can be read. */
export function reportingProviders(): string[] {
  return [...PROVIDERS.values()].filter((provider) => receiptsOf(provider) !== undefined).map(({ id }) => id);
}

/** Whether receipts may come without our id of the message, so that the provider's has to be found again. */
export function namesItsOwnIdAlone(provider: Pick<AnyProvider, 'receipts'> | undefined): boolean {
  return receiptsOf(provider)?.mayLackReference === true;
}

/** Where the api serves the page of a provider. */
export function pagePath(id: string): string {
  return `/docs/providers/${id}`;
}

/** What the catalog endpoint says of a provider. */
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
  const parsed = schema.safeParse(known.value);
  if (parsed.success) return { ok: true, value: parsed.data };
  return { ok: false, details: parsed.error.issues.map((issue) => faultOf(half, issue, known.value)) };
}

/** Both spellings of a key are one field; both with different values is a fault. */
function pickKnown(half: string, keys: readonly string[], sent: Record<string, unknown>): ParsedHalf {
  const details: FieldFault[] = [];
  const value: Record<string, unknown> = {};
  for (const key of keys) {
    const given = [...new Set([key, snakeCase(key)])].filter((spelling) => Object.hasOwn(sent, spelling));
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
      message: issue.code === 'custom' ? issue.message : 'Field is required',
    };
  return { field, rule: RULES[issue.code] ?? 'invalid', message: issue.message };
}
