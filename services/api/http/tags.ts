/** The groups of operations in the OpenAPI document, in display order. */
export const TAGS = {
  Messages: 'Send messages, take them back while they wait, and read what became of them.',
  Suppressions: 'Recipients that messages must not go to, and why.',
  Events: 'What happened, in order: to follow messages, provider accounts and the tenant.',
  Webhooks:
    'Endpoints that are sent events as they happen, signed by Standard Webhooks, and what became of each delivery.',
  Providers:
    "A tenant's accounts with the providers that deliver its messages, and the catalog of providers.",
  Unsubscribing: 'What recipients of marketing mail follow to get no more of it.',
  Receipts: 'What providers call to report what became of messages.',
  'API keys': 'Keys with which programs send and read messages.',
  Members: 'People who may act for a tenant, and their roles.',
  Tenants: 'Tenants: whoever has messages, providers, keys and members of their own.',
  Usage: 'How many messages were sent, what became of them, and how long that took.',
  Account: "Who is signed in, and what the tenant's plan allows.",
  'Audit log': 'What was changed, by whom and from where.',
} as const satisfies Readonly<Record<string, string>>;
export type Tag = keyof typeof TAGS;
