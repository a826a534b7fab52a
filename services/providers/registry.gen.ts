// Written by services/providers/generate.ts from the folders beside it; run `npm run gen` after adding one.
import simulator from './simulator/provider.ts';
import twilio from './twilio/provider.ts';
import type { AnyProvider } from './provider.ts';

/** Every id of the catalog. */
export type ProviderKind =
  | 'simulator-email'
  | 'simulator-push'
  | 'simulator-sms'
  | 'simulator-whatsapp'
  | 'twilio';

const DEFINITIONS: readonly AnyProvider[] = [
  ...simulator,
  twilio,
];

/** The catalog by id, in the order of the ids. */
export const PROVIDERS: ReadonlyMap<string, AnyProvider> = new Map(
  DEFINITIONS.toSorted((a, b) => (a.id < b.id ? -1 : 1)).map((provider) => [provider.id, provider]),
);
