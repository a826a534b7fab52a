import { statusReport } from '#providers/twilio/stand-in-reports.ts';
import { expect, vi } from 'vitest';
import { call } from './http-call.ts';
import type { ServiceStack } from './service-stack.ts';

/** A message that Twilio has accepted, with the URL and the secret for its reports. */
export type TakenByTwilio = {
  readonly id: string;
  readonly sid: string;
  readonly url: string;
  readonly authToken: string;
};

type Stack = Pick<ServiceStack, 'apis' | 'twilio'>;

export async function messageRecord(
  { apis }: Stack,
  key: string,
  id: string,
): Promise<Record<string, unknown>> {
  return (await call(apis[1].origin, 'GET', `/v1/messages/${id}`, { key })).body as Record<string, unknown>;
}

/** Waits until Twilio has accepted the message. */
export async function takenByTwilio(stack: Stack, key: string, id: string): Promise<TakenByTwilio> {
  const isTaken = { status: 'sent', finality: 'pending' };
  await vi.waitFor(async () => expect(await messageRecord(stack, key, id)).toMatchObject(isTaken), {
    timeout: 45_000,
    interval: 50,
  });
  const taken = stack.twilio.received.findLast((one) => one.body.includes(id));
  const url = new URLSearchParams(taken?.body).get('StatusCallback') ?? '';
  const pair = Buffer.from(taken?.headers['authorization']?.slice(6) ?? '', 'base64').toString();
  const { providerMessageId } = await messageRecord(stack, key, id);
  return { id, sid: String(providerMessageId), url, authToken: pair.slice(pair.indexOf(':') + 1) };
}

/** Sends a report as Twilio does, or with another URL or body than it has signed. */
export async function reportAsTwilio(
  one: TakenByTwilio,
  state: string,
  over: { url?: string; body?: string } = {},
): Promise<{ status: number; text: string }> {
  const { url, headers, body } = statusReport({ ...one, state });
  const answer = await fetch(over.url ?? url, { method: 'POST', headers, body: over.body ?? body });
  return { status: answer.status, text: await answer.text() };
}
