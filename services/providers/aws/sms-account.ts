import { z } from 'zod';
import { isSmsSender, SMS_SENDER_RULE } from '#core/domain/message/sms-sender.ts';
import { dltSettings } from '../india-dlt.ts';
import type { FieldFault } from '../provider.ts';
import { awsSettings, configurationSet, topicArn, type awsSecrets } from './account.ts';

export const config = z.object({
  ...awsSettings,
  mode: z
    .enum(['eum', 'sns'])
    .default('eum')
    .describe(
      'Service that sends: eum (AWS End User Messaging SMS, the default) or sns (Publish of Amazon SNS, which reports no delivery and sends without regard to the expiry).',
    ),
  originationIdentity: z
    .string()
    .regex(/^[A-Za-z0-9_:/+-]{1,256}$/, 'Must be a phone number, a sender id, a pool id or an ARN')
    .optional()
    .describe(
      'What messages without a sender go from: a number, a pool or a sender id, by its id or ARN; with the mode sns a number. Default: AWS chooses.',
    ),
  senderId: z
    .string()
    .refine(isSmsSender, SMS_SENDER_RULE)
    .optional()
    .describe('Sender id of messages without a sender, where there is no originationIdentity.'),
  messageType: z
    .enum(['TRANSACTIONAL', 'PROMOTIONAL'])
    .default('TRANSACTIONAL')
    .describe('How AWS treats the messages: TRANSACTIONAL (the default) or PROMOTIONAL.'),
  configurationSetName: configurationSet.describe(
    'Configuration set whose event destination reports on the messages. Only with the mode eum.',
  ),
  topicArn: topicArn('the events of the configuration set'),
  ...dltSettings,
});

export type SmsAccount = {
  readonly config: z.output<typeof config>;
  readonly secrets: z.output<typeof awsSecrets>;
};

export function checkMode(config: SmsAccount['config']): readonly FieldFault[] {
  if (config.mode === 'eum') return [];
  const needsEum = (['configurationSetName', 'topicArn'] as const)
    .filter((field) => config[field] !== undefined)
    .map((field) => ({ field: `publicConfig.${field}`, rule: 'invalid', message: 'Needs the mode eum' }));
  const isNumber = config.originationIdentity === undefined || isPhoneNumber(config.originationIdentity);
  const message = 'Must be a phone number where SNS publishes';
  return [
    ...needsEum,
    ...(isNumber ? [] : [{ field: 'publicConfig.originationIdentity', rule: 'format', message }]),
  ];
}

/** Returns whether the sender is an E.164 number or a short code. */
export function isPhoneNumber(sender: string): boolean {
  return /^\+?\d{3,15}$/.test(sender);
}
