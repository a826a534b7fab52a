// Sends and reads a message of every channel with the generated client, and prints the typed values of the answers.
import { client } from './client/client.gen.ts';
import { getMessage, listMessages, sendMessage } from './client/sdk.gen.ts';
import type { SendMessage } from './client/types.gen.ts';

client.setConfig({
  baseUrl: process.env['DESPATCH_URL'] ?? '',
  headers: { 'X-Service-Key': process.env['DESPATCH_KEY'] ?? '' },
});

const drafts: SendMessage[] = [
  { channel: 'sms', to: '+15550000001', body: 'Hello' },
  {
    channel: 'email',
    to: 'delivered@simulator.invalid',
    from: 'Acme <hello@acme.example>',
    subject: 'Hello',
    bodyText: 'Hello',
    metadata: { order: '4711' },
    tags: ['welcome'],
  },
  { channel: 'push', to: 'delivered', title: 'Hello', data: { screen: 'home' } },
  { channel: 'whatsapp', to: '+15550000001', template: { name: 'welcome', language: 'en' } },
];

const messages = [];
for (const body of drafts) {
  const { data: accepted } = await sendMessage({ body, throwOnError: true });
  const { data: record } = await getMessage({ path: { id: accepted.id }, throwOnError: true });
  messages.push({
    channel: accepted.channel,
    status: accepted.status,
    test: accepted.test,
    enqueuedAt: Date.parse(accepted.enqueuedAt) / 1000,
    isSame: record.id === accepted.id,
    to: record.to,
    finality: record.finality,
    recordedAt: Date.parse(record.enqueuedAt) / 1000,
  });
}

const { data: page } = await listMessages({ query: { limit: 2 }, throwOnError: true });
const { error } = await sendMessage({ body: { channel: 'sms', to: 'nobody', body: 'Hello' } });
console.log(
  JSON.stringify({
    messages,
    listed: page.items.length,
    hasMore: page.nextCursor !== null,
    error: { statusCode: error?.statusCode, code: error?.code, field: error?.details?.[0]?.field },
  }),
);
