import { z } from 'zod';
import type { Channel } from '#core/domain/message/channel.ts';
import { SendMessage } from '../messages/send-message-schema.ts';
import { settingRows, type SettingRow } from './setting-rows.ts';

export type DescribedField = SettingRow & {
  /** The field's name in a guide, such as `template.header`. */
  readonly field: string;
};

type Schema = {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly const?: unknown;
  readonly $ref?: string;
  readonly $defs?: Readonly<Record<string, Schema>>;
};

/** Fields that Despatch handles itself, regardless of the provider. */
const ALIKE = new Set([
  'channel',
  'to',
  'externalId',
  'ttlSeconds',
  'category',
  'priority',
  'providerId',
  'metadata',
  'tags',
  'deliveryGuarantee',
  'contentRetention',
  'sendAt',
  'idempotencyKey',
]);
/** The short form of a mail's text, used when neither `bodyText` nor `bodyHtml` is sent. */
const SHORT = new Set(['email.body']);
/** Parts of a field that a vendor may not support even if it supports the field. */
const PARTS: Readonly<Record<string, readonly string[]>> = {
  'whatsapp.template': ['header', 'buttons'],
  'whatsapp.media': ['caption', 'filename'],
};

/** Returns the fields of a channel's messages that not all providers support, from the request schema. */
export function describeMessageFields(channel: Channel): readonly DescribedField[] {
  const shape = shapeOf(channel);
  return rowsOf(shape)
    .filter(({ name }) => !ALIKE.has(name) && !SHORT.has(`${channel}.${name}`))
    .flatMap((row) => {
      const parts = PARTS[`${channel}.${row.name}`] ?? [];
      const inner = parts.length === 0 ? [] : rowsOf(resolved(shape.properties?.[row.name] ?? {}));
      return [
        { ...row, field: row.name },
        ...inner
          .filter(({ name }) => parts.includes(name))
          .map((part) => ({ ...part, field: `${row.name}.${part.name}` })),
      ];
    });
}

const ROOT = z.toJSONSchema(SendMessage, { io: 'input', unrepresentable: 'any' }) as Schema;

function rowsOf({ properties = {}, required = [] }: Schema): SettingRow[] {
  const known = Object.entries(properties).map(([name, schema]) => [name, resolved(schema)] as const);
  return settingRows({ properties: Object.fromEntries(known), required });
}

function shapeOf(channel: Channel): Schema {
  const shape = Object.values(ROOT.$defs ?? {}).find(
    ({ properties }) => properties?.['channel']?.const === channel,
  );
  if (shape === undefined) throw new Error(`The request has no schema for ${channel}`);
  return shape;
}

function resolved(schema: Schema): Schema {
  const name = schema.$ref?.split('/').at(-1);
  const definition = name === undefined ? undefined : ROOT.$defs?.[name];
  return definition === undefined ? schema : { ...definition, ...schema };
}
