/** The groups of operations in the OpenAPI document, in the order in which they are shown. */
export const TAGS = {
  Messages: 'Send messages and read what became of them.',
  Providers:
    "A tenant's accounts with the providers that deliver its messages, and the catalog of providers.",
  Receipts: 'What providers call to report what became of messages.',
  'API keys': 'Keys with which programs send and read messages.',
  Members: 'People who may act for a tenant, and their roles.',
  Tenants: 'Tenants: whoever has messages, providers, keys and members of their own.',
  Account: "Who is signed in, and what the tenant's plan allows.",
  'Audit log': 'What was changed, by whom and from where.',
} as const satisfies Readonly<Record<string, string>>;
export type Tag = keyof typeof TAGS;
