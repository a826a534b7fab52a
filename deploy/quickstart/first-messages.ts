import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Channel } from '#core/domain/message/channel.ts';
import type { ApiClient } from './api-client.ts';
import type { EventArrivals } from './first-events.ts';
import type { Arrival } from './received.ts';
import { table } from './table.ts';

export type Delivery = {
  readonly id: string;
  readonly channel: Channel;
  readonly status: string;
  /** From acceptance to arrival at the provider; undefined when it did not arrive. */
  readonly latencyMs: number | undefined;
  /** From acceptance to the provider's delivery report; undefined when it sends none. */
  readonly deliveredMs?: number;
  /** Why the message got no further, or how it got there. */
  readonly reason?: string;
  /** It did not take the expected route. */
  readonly isAstray?: boolean;
};

/** Where the messages of each channel arrive. */
export type Arrivals = { readonly [C in Channel]: () => readonly Arrival[] };

/** The provider account to send through; absent: the tenant's oldest account of the channel. */
export type Through = { readonly [C in Channel]?: string | undefined };

type Accepted = { readonly id: string; readonly enqueuedAt: string };
type MessageRecord = {
  readonly status: string;
  readonly deliveredAt: string | null;
  readonly statusReason?: string | null;
  readonly failure?: {
    readonly class: string;
    readonly code: string;
    readonly providerMessage?: string;
  } | null;
};

const WAIT_MS_MAX = 20_000;
const POLL_MS = 25;

/**
 * Sends one message per channel, one after the other, and waits until each one has arrived at its provider and its status
 * is sent, or delivered if the provider reports that.
 */
export async function sendFirstMessages(
  api: ApiClient,
  serviceKey: string,
  arrivals: Arrivals,
  through: Through,
): Promise<Delivery[]> {
  const deliveries: Delivery[] = [];
  for (const { channel, mark, body } of samples()) {
    const providerId = through[channel];
    const sample = { channel, mark, body: { ...body, ...(providerId === undefined ? {} : { providerId }) } };
    deliveries.push(await sendSample(api, serviceKey, sample, arrivals[channel]));
  }
  return deliveries;
}

/** Sends one message and waits up to 20 seconds for its outcome. */
export async function sendSample(
  api: ApiClient,
  serviceKey: string,
  { channel, mark, body }: Sample,
  arrivals: Arrivals[Channel],
): Promise<Delivery> {
  const accepted = await api.call<Accepted>({ serviceKey }, 'POST', '/v1/messages', { channel, ...body });
  const deadline = Date.now() + WAIT_MS_MAX;
  for (;;) {
    const record = await api.call<MessageRecord>({ serviceKey }, 'GET', `/v1/messages/${accepted.id}`);
    const arrival = arrivals().find(({ text }) => text.includes(mark));
    const isOver = isEnd(record, channel) && (arrival !== undefined || !isTaken(record.status));
    if (isOver || Date.now() > deadline) return toDelivery(channel, accepted, record, arrival);
    await delay(POLL_MS);
  }
}

type Sample = { readonly channel: Channel; readonly mark: string; readonly body: Record<string, string> };

/** Each text contains a unique mark by which its arrival is recognised. */
function samples(): Sample[] {
  const mark = (): string => randomBytes(3).toString('hex');
  const [sms, email, push, whatsapp] = [mark(), mark(), mark(), mark()];
  return [
    { channel: 'sms', mark: sms, body: { to: '+14155550100', body: `Your code is ${sms}` } },
    {
      channel: 'email',
      mark: email,
      body: {
        to: 'ada@example.com',
        from: 'Acme <hello@acme.example>',
        subject: 'Welcome to Acme',
        bodyText: `Hello Ada, your order ${email} is on its way.`,
        bodyHtml: `<p>Hello Ada,</p><p>your order <strong>${email}</strong> is on its way.</p>`,
      },
    },
    {
      channel: 'push',
      mark: push,
      body: { to: 'device-token-of-ada', title: 'Order shipped', body: `Order ${push} is on its way` },
    },
    {
      channel: 'whatsapp',
      mark: whatsapp,
      body: { to: '+14155550100', body: `Order ${whatsapp} has arrived` },
    },
  ];
}

/** Channels whose provider in the quick start reports deliveries. */
const REPORTED: ReadonlySet<Channel> = new Set(['sms', 'email', 'whatsapp']);

function isEnd({ status }: MessageRecord, channel: Channel): boolean {
  if (status === 'sent') return !REPORTED.has(channel);
  return !['queued', 'sending', 'deferred', 'held'].includes(status);
}

/** Returns whether the provider has accepted the message. */
function isTaken(status: string): boolean {
  return status === 'sent' || status === 'delivered';
}

function toDelivery(
  channel: Channel,
  { id, enqueuedAt }: Accepted,
  record: MessageRecord,
  arrival: Arrival | undefined,
): Delivery {
  const { status, statusReason, failure, deliveredAt } = record;
  const since = (at: number): number => Math.max(0, at - Date.parse(enqueuedAt));
  const latencyMs = arrival === undefined ? undefined : since(arrival.at);
  const delivered = deliveredAt === null ? {} : { deliveredMs: since(Date.parse(deliveredAt)) };
  if (isTaken(status) && arrival !== undefined && isEnd(record, channel)) {
    const reason = status === 'sent' ? { reason: 'its provider reports no deliveries' } : {};
    return { id, channel, status, latencyMs, ...delivered, ...reason };
  }
  const told = [failure?.class, failure?.code, failure?.providerMessage].filter((part) => part !== undefined);
  const reason = told.length > 0 ? told.join(' ') : (statusReason ?? 'nothing more was heard of it in time');
  return { id, channel, status, latencyMs, reason };
}

/** Returns whether the message was reported as delivered, or reached a provider that never reports. */
export function isDelivered({ channel, status, latencyMs, isAstray = false }: Delivery): boolean {
  const isOver = status === 'delivered' || (status === 'sent' && !REPORTED.has(channel));
  return isOver && latencyMs !== undefined && !isAstray;
}

/** @param events of each message, by message id. */
export function deliveryTable(
  deliveries: readonly Delivery[],
  events: ReadonlyMap<string, EventArrivals>,
): string {
  return table(
    [
      { title: 'id', align: 'left' },
      { title: 'channel', align: 'left' },
      { title: 'status', align: 'left' },
      { title: 'accept to provider', align: 'right' },
      { title: 'accept to delivery', align: 'right' },
      { title: 'events received', align: 'left' },
      { title: '', align: 'left' },
    ],
    deliveries.map(({ id, channel, status, latencyMs, deliveredMs, reason = '' }) => [
      id,
      channel,
      status,
      latencyMs === undefined ? '-' : `${latencyMs} ms`,
      deliveredMs === undefined ? '-' : `${deliveredMs} ms`,
      arrivalsText(events.get(id)),
      reason,
    ]),
  );
}

function arrivalsText(arrivals: EventArrivals | undefined): string {
  const { arrived, happened } = arrivals ?? { arrived: 0, happened: 0 };
  return `${arrived} of ${happened}${arrived === 0 ? '' : ', verified'}`;
}
