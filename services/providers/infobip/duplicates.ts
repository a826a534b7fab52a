import { z } from 'zod';
import type { ProviderContext } from '../provider.ts';
import { isSuccess, parseJson } from '../classify-error.ts';
import { isRejected, Status } from './answers.ts';
import { authorization, vendorOrigin, type Account } from './account.ts';
import { DUPLICATE } from './outcomes.ts';

const Logs = z.looseObject({ results: z.array(z.looseObject({ status: Status })) });

/**
 * Whether the message that has taken an id before went nowhere itself, for want of credit for example: then its id is
 * used up all the same. https://www.infobip.com/docs/api/channels/sms/sms-messaging/logs-and-status-reports
 */
export async function wasRejectedBefore(
  messageId: string,
  account: Account,
  context: ProviderContext,
): Promise<boolean> {
  const result = await context.http({
    method: 'GET',
    url: `${context.origin(vendorOrigin(account))}/sms/3/logs?messageId=${encodeURIComponent(messageId)}`,
    isTenantHost: true,
    headers: authorization(account),
  });
  if (result.kind !== 'response' || !isSuccess(result)) return false;
  const statuses = Logs.safeParse(parseJson(result.text)).data?.results.map(({ status }) => status) ?? [];
  // The duplicate itself may be in the log, under the same id.
  const earlier = statuses.filter(({ id }) => id !== DUPLICATE);
  return earlier.length > 0 && earlier.every(isRejected);
}
