import { z } from 'zod';
import type { FieldFault } from './provider.ts';

/** The id of an entity or a template in India's register of business messages (DLT). Operators assign decimal ids. */
const dltId = (description: string) =>
  z
    .string()
    .regex(/^[A-Za-z0-9]{1,50}$/, 'Must be letters and digits, at most 50')
    .optional()
    .describe(description);

/** Settings of an account whose vendor passes them on to India's operators, which refuse messages without them. */
export const dltSettings = {
  dltEntityId: dltId(
    'India: id of your principal entity in the DLT register. Goes with messages to numbers that begin with +91.',
  ),
  dltTemplateId: dltId(
    'India: id of the DLT template that the messages of this account fit. Needs dltEntityId. One provider account for each template, chosen by providerId.',
  ),
};

/** Neither setting affects where a secret is sent. */
export const dltRoute = { dltEntityId: false, dltTemplateId: false } as const;

export type DltConfig = {
  readonly dltEntityId?: string | undefined;
  readonly dltTemplateId?: string | undefined;
};

/** A template always belongs to an entity. */
export function checkDlt(config: DltConfig): readonly FieldFault[] {
  if (config.dltTemplateId === undefined || config.dltEntityId !== undefined) return [];
  return [{ field: 'publicConfig.dltEntityId', rule: 'required', message: 'Required with dltTemplateId' }];
}

/** Returns the account's DLT ids under the vendor's field names. Empty for numbers outside of India. */
export function dltFields<Entity extends string, Template extends string>(
  to: string,
  { dltEntityId, dltTemplateId }: DltConfig,
  names: { readonly entity: Entity; readonly template: Template },
): Partial<Record<Entity | Template, string>> {
  if (!to.startsWith('+91') || dltEntityId === undefined) return {};
  const fields: Partial<Record<string, string>> = { [names.entity]: dltEntityId };
  if (dltTemplateId !== undefined) fields[names.template] = dltTemplateId;
  return fields;
}
