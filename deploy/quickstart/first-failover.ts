import { randomBytes } from 'node:crypto';
import { FAILED_OVER } from './accounts.ts';
import type { ApiClient, Caller } from './api-client.ts';
import { isDelivered, sendSample, type Arrivals, type Delivery } from './first-messages.ts';

type RouteStep = { readonly label: string | null; readonly verdict: string; readonly reason: string };
type MessageRecord = { readonly route: readonly RouteStep[] };

/**
 * Sends an sms whose first provider was told to refuse it, and waits until the second one reports it as delivered.
 * @param arrivals at the second one.
 * @returns the delivery, and how the message's record explains it.
 */
export async function sendFailedOver(
  api: ApiClient,
  callers: { readonly serviceKey: string; readonly owner: Caller },
  arrivals: Arrivals['sms'],
): Promise<Delivery> {
  const mark = randomBytes(3).toString('hex');
  const body = { to: '+14155550100', body: `Your other code is ${mark}` };
  const delivery = await sendSample(api, callers.serviceKey, { channel: 'sms', mark, body }, arrivals);
  const { route } = await api.call<MessageRecord>(callers.owner, 'GET', `/v1/admin/messages/${delivery.id}`);
  const reason = route.map(stepText).join(', ');
  return isDelivered(delivery) && isFailover(route)
    ? { ...delivery, reason }
    : { ...delivery, isAstray: true, reason: [delivery.reason, reason].filter(Boolean).join('; ') };
}

function isFailover(route: readonly RouteStep[]): boolean {
  const [from, to] = FAILED_OVER;
  const told = route.map(({ label, verdict }) => `${label} ${verdict}`);
  return told.join() === `${from.label} failed,${to.label} chosen`;
}

function stepText({ label, verdict, reason }: RouteStep): string {
  return `${label ?? 'an account'} ${verdict}: ${reason}`;
}
