import { randomUUID } from 'node:crypto';
import type { Channel } from '#core/domain/message/channel.ts';
import type { Acknowledgement } from './ledger.ts';
import type { Random } from './random.ts';
import { LATE_NUMBER, UNREPORTED_NUMBER } from './receipt-habits.ts';
import { newToken } from './token.ts';

export type Credential = { readonly name: string; readonly key: string };

export type LoadTenant = {
  readonly id: string;
  /** Session of an owner who may change the tenant's settings; null where the load changes none. */
  readonly owner: { readonly token: string; readonly slug: string } | null;
  readonly credentials: readonly Credential[];
  readonly channels: readonly Channel[];
  /** Share of the load, relative to the others. */
  readonly weight: number;
  /** How many messages are sent at once, each with the next credential and to the next api process. */
  readonly burst: number;
  /** Error codes that this tenant is meant to provoke. */
  readonly expects: readonly string[];
  /** Its first sms account, by its id here and at the provider, where its route has a receipt timeout; else null. */
  readonly waitedFor: { readonly providerId: string; readonly account: string } | null;
};

/** One message of the load and how it is requested. */
export type LoadMessage = Omit<Acknowledgement, 'id' | 'askedAt' | 'at' | 'credential'> & {
  readonly credential: Credential;
  readonly tenant: LoadTenant;
  readonly channel: Channel;
  /** The fields of the request body. */
  readonly fields: Readonly<Record<string, unknown>>;
  /** Index of the api process that is asked first, modulo their number. */
  readonly to: number;
};

export type Recipient = { readonly channel: Channel; readonly to: string };

/**
 * Returns a new message of the load.
 * @param place index within one burst.
 * @param canary text that every body contains.
 * @param recipient Default: one that many messages go to.
 */
export function newMessage(
  tenant: LoadTenant,
  random: Random,
  place: number,
  canary: string,
  recipient?: Recipient,
): LoadMessage {
  const { credentials } = tenant;
  const credential =
    tenant.burst === 1 ? random.pick(credentials) : (credentials[place % credentials.length] as Credential);
  const channel = recipient?.channel ?? random.pick(tenant.channels);
  const guarantee = random.next() < 0.3 ? 'at_most_once' : 'at_least_once';
  const token = newToken();
  const sendAt =
    random.next() < SCHEDULED ? Date.now() + random.whole(SEND_AFTER_MS.min, SEND_AFTER_MS.max) : null;
  const { waitedFor } = tenant;
  const pinned = waitedFor !== null && channel === 'sms' && random.next() < PINNED ? waitedFor : null;
  return {
    tenantId: tenant.id,
    tenant,
    pinned: pinned?.account ?? null,
    key: randomUUID(),
    token,
    credential,
    guarantee,
    sendAt,
    firstAskedAt: Date.now(),
    to: tenant.burst === 1 ? random.whole(0, 1) : place,
    channel,
    fields: {
      channel,
      ...FIELDS[channel](`${token} ${canary}`, random),
      ...(waitedFor === null || channel !== 'sms' ? {} : { to: random.pick(NUMBERS_WAITED_FOR) }),
      ...(pinned === null ? {} : { providerId: pinned.providerId }),
      ...(recipient === undefined ? {} : { to: recipient.to }),
      externalId: token,
      deliveryGuarantee: guarantee,
      // `otp` messages have a lifetime so short that a clock that is an hour off would expire them.
      category: random.next() < 0.2 ? 'otp' : 'transactional',
      priority: random.pick(['high', 'normal', 'normal', 'bulk']),
      metadata: { order: token.slice(0, 8) },
      ...(sendAt === null ? {} : { sendAt: new Date(sendAt).toISOString() }),
    },
  };
}

/** Returns a recipient that no other message of the run has. @param number its number, up to ten million. */
export function ownRecipient(tenant: LoadTenant, random: Random, number: number): Recipient {
  const channel = random.pick(tenant.channels);
  const digits = String(number).padStart(7, '0');
  switch (channel) {
    case 'sms':
    case 'whatsapp':
      return { channel, to: `+4930${digits}` };
    case 'email':
      return { channel, to: `reader-${digits}@example.com` };
    case 'push':
      return { channel, to: `device-token-${digits}` };
  }
}

/** Share of messages that are scheduled some seconds ahead. */
const SCHEDULED = 0.15;
const SEND_AFTER_MS = { min: 500, max: 8_000 };

/** Share of messages that name an account, of tenants whose routes have a receipt timeout. */
const PINNED = 0.1;

/** Numbers whose receipts the stand-in sends in order, twice, out of order, or not at all. */
const NUMBERS = ['+14155550100', '+14155550100', '+15550000005', '+15550000006', '+15550000007'];
const NUMBERS_WAITED_FOR = [...NUMBERS, UNREPORTED_NUMBER, UNREPORTED_NUMBER, LATE_NUMBER, LATE_NUMBER];

const FIELDS: Readonly<Record<Channel, (text: string, random: Random) => object>> = {
  sms: (text, random) => ({ to: random.pick(NUMBERS), body: text }),
  email: (text) => ({
    to: 'ada@example.com',
    from: 'Acme <hello@acme.example>',
    subject: 'Hello',
    bodyText: text,
  }),
  push: (text) => ({ to: 'device-token-of-ada', title: 'Hello', body: text }),
  whatsapp: (text) => ({ to: '+14155550100', body: text }),
};
