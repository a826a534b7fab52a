import { z } from 'zod';
import type { Outcome } from '#core/domain/sending/outcome.ts';
import {
  isSuccess,
  parseJson,
  verificationUnknown,
  type ClassifiedError,
  type Response,
} from '../classify-error.ts';
import { outcomeOfSend } from '../outcome-of-send.ts';
import { checkDlt, dltRoute } from '../india-dlt.ts';
import { defineProvider, type Verification } from '../provider.ts';
import { awsSecrets, secretsToRedact } from './account.ts';
import { judgeAwsError, judgeAwsXmlError, verificationOfAwsRefusal, xmlText } from './api-error.ts';
import { checkMode, config, type SmsAccount } from './sms-account.ts';
import { callEum, callSns, publish, sendTextMessage } from './sms-calls.ts';
import { EUM_CODES, NUMBER_REFUSED, OPTED_OUT, SNS_CODES } from './sms-outcomes.ts';
import { smsReceipts } from './sms-receipts.ts';
import { smsGuide } from './guide.ts';

/** Limit of `MessageBody`; Publish has the same limit. */
const BODY_CHARACTERS_MAX = 1_600;

const Accepted = z.looseObject({ MessageId: z.string().min(1) });
const AttributesBody = z.looseObject({ AccountAttributes: z.array(z.unknown()) });

export const awsSms = defineProvider({
  id: 'aws-sms',
  channel: 'sms',
  name: 'AWS End User Messaging SMS',
  dedupe: 'none',
  receipts: smsReceipts,
  bodyCharactersMax: BODY_CHARACTERS_MAX,
  guide: smsGuide,
  config,
  secrets: awsSecrets,
  secretRoute: {
    region: true,
    accessKeyId: true,
    mode: true,
    originationIdentity: false,
    senderId: false,
    messageType: false,
    configurationSetName: false,
    topicArn: false,
    ...dltRoute,
  },
  checkConfig: (settings) => [...checkMode(settings), ...checkDlt(settings)],

  async send(message, account, context): Promise<Outcome> {
    const isSns = account.config.mode === 'sns';
    const from = message.from ?? account.config.originationIdentity ?? account.config.senderId;
    const result = isSns
      ? await publish(message, from, account, context)
      : await sendTextMessage(message, from, account, context);
    return outcomeOfSend(result, {
      judge: (response) => judge(response, account),
      hidden: secretsToRedact(account, message.to, message.content.body),
      now: context.epochMs(),
      accepted: ({ text }) => {
        const id = isSns ? xmlText(text, 'MessageId') : Accepted.safeParse(parseJson(text)).data?.MessageId;
        return id ? { providerMessageId: id, sender: from } : undefined;
      },
    });
  },

  async verify(account, context): Promise<Verification> {
    const isSns = account.config.mode === 'sns';
    const result = isSns
      ? await callSns({ Action: 'GetSMSAttributes' }, account, context)
      : await callEum('DescribeAccountAttributes', {}, account, context);
    if (result.kind !== 'response') return verificationUnknown(result);
    if (isSuccess(result)) {
      const isAnswer = isSns
        ? result.text.includes('<GetSMSAttributesResult')
        : AttributesBody.safeParse(parseJson(result.text)).success;
      return isAnswer ? { kind: 'valid' } : verificationUnknown(result);
    }
    return verificationOfAwsRefusal(result, judge(result, account), secretsToRedact(account));
  },
});

function judge(response: Response, { config }: SmsAccount): ClassifiedError {
  if (config.mode === 'eum') return judgeAwsError(response, EUM_CODES);
  const classified = judgeAwsXmlError(response, SNS_CODES);
  const text = classified.vendorError.providerMessage ?? '';
  if (classified.meaning.class !== 'content_rejected') return classified;
  // Publish has a single code for every parameter fault.
  if (/opted out/i.test(text)) return { ...classified, meaning: OPTED_OUT };
  return /PhoneNumber/.test(text) ? { ...classified, meaning: NUMBER_REFUSED } : classified;
}
