// Sends and reads a message of every channel with the generated client, and prints the typed values of the answers.
import { getMessage, listMessages, sendMessage, type SendMessage } from './client.ts';

const credentials = { headers: { 'X-Service-Key': process.env['DESPATCH_KEY'] ?? '' } };

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
for (const draft of drafts) {
  const sent = await sendMessage(draft, credentials);
  if (sent.status !== 202) throw new Error(`${sent.status} ${sent.data.code}`);
  const read = await getMessage(sent.data.id, credentials);
  if (read.status !== 200) throw new Error(`${read.status} ${read.data.code}`);
  messages.push({
    channel: sent.data.channel,
    status: sent.data.status,
    test: sent.data.test,
    enqueuedAt: Date.parse(sent.data.enqueuedAt) / 1000,
    isSame: read.data.id === sent.data.id,
    to: read.data.to,
    finality: read.data.finality,
    recordedAt: Date.parse(read.data.enqueuedAt) / 1000,
  });
}

const page = await listMessages({ limit: 2 }, credentials);
if (page.status !== 200) throw new Error(`${page.status} ${page.data.code}`);
const refused = await sendMessage({ channel: 'sms', to: 'nobody', body: 'Hello' }, credentials);
if (refused.status === 202) throw new Error('a number that is none was accepted');
const { statusCode, code, details } = refused.data;
console.log(
  JSON.stringify({
    messages,
    listed: page.data.items.length,
    hasMore: page.data.nextCursor !== null,
    error: { statusCode, code, field: details?.[0]?.field },
  }),
);
