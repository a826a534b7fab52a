/** The groups of operations in the OpenAPI document, in display order. */
export const TAGS = {
  Messages: 'Send messages, cancel them while they wait, and read their state.',
  Suppressions: 'Recipients that must not receive messages, and why.',
  Events: 'Events in order, to follow messages, provider accounts and the tenant.',
  Webhooks:
    'Endpoints that receive events as they happen, signed by Standard Webhooks, and the result of each delivery.',
  Providers:
    "A tenant's accounts with the providers that deliver its messages, and the catalog of providers.",
  Unsubscribing: 'Links that recipients of marketing mail follow to unsubscribe.',
  Receipts: 'Endpoints that providers call to report the state of messages.',
  'API keys': 'Keys that programs use to send and read messages.',
  Members: 'People who may act for a tenant, and their roles.',
  Tenants: 'Tenants, each with its own messages, providers, keys and members.',
  Usage: 'How many messages were sent, with which result, and how long that took.',
  Account: "The signed-in user, and what the tenant's plan allows.",
  'Audit log': 'What was changed, by whom and from where.',
} as const satisfies Readonly<Record<string, string>>;
export type Tag = keyof typeof TAGS;
