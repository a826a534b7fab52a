import type { OutboundFor } from '#core/domain/message/content.ts';
import { dltFields } from '../india-dlt.ts';
import type { HttpResult, ProviderContext } from '../provider.ts';
import { callAws } from './call.ts';
import { isPhoneNumber, type SmsAccount } from './sms-account.ts';
import { REFERENCE } from './sms-receipts.ts';

const TTL_S_MIN = 5;
const TTL_S_MAX = 259_200;

/** Sends through AWS End User Messaging. AWS repeats the message's context in its events. */
export function sendTextMessage(
  { id, to, content, expiresAt }: OutboundFor<'sms'>,
  from: string | undefined,
  account: SmsAccount,
  context: ProviderContext,
): Promise<HttpResult> {
  const { messageType, configurationSetName } = account.config;
  const names = { entity: 'IN_ENTITY_ID', template: 'IN_TEMPLATE_ID' } as const;
  const country = dltFields(to, account.config, names);
  const seconds = Math.max(TTL_S_MIN, Math.floor((expiresAt - context.epochMs()) / 1_000));
  const body = {
    DestinationPhoneNumber: to,
    ...(from === undefined ? {} : { OriginationIdentity: from }),
    MessageBody: content.body,
    MessageType: messageType,
    ...(configurationSetName === undefined ? {} : { ConfigurationSetName: configurationSetName }),
    ...(seconds >= TTL_S_MAX ? {} : { TimeToLive: seconds }),
    ...(Object.keys(country).length === 0 ? {} : { DestinationCountryParameters: country }),
    Context: { [REFERENCE]: id },
  };
  return callEum('SendTextMessage', body, account, context);
}

/** https://docs.aws.amazon.com/sns/latest/dg/sms_publish-to-phone.html */
const SNS_DLT = { entity: 'AWS.MM.SMS.EntityId', template: 'AWS.MM.SMS.TemplateId' } as const;

/** Sends through Amazon SNS. */
export function publish(
  { to, content }: OutboundFor<'sms'>,
  from: string | undefined,
  account: SmsAccount,
  context: ProviderContext,
): Promise<HttpResult> {
  const type = account.config.messageType === 'TRANSACTIONAL' ? 'Transactional' : 'Promotional';
  const attributes = [
    ['AWS.SNS.SMS.SMSType', type],
    ...(from === undefined
      ? []
      : [[isPhoneNumber(from) ? 'AWS.MM.SMS.OriginationNumber' : 'AWS.SNS.SMS.SenderID', from]]),
    ...Object.entries(dltFields(to, account.config, SNS_DLT)),
  ];
  const entries = attributes.flatMap(([name = '', value = ''], i) => {
    const entry = `MessageAttributes.entry.${i + 1}`;
    return [
      [`${entry}.Name`, name],
      [`${entry}.Value.DataType`, 'String'],
      [`${entry}.Value.StringValue`, value],
    ];
  });
  const form = { Action: 'Publish', PhoneNumber: to, Message: content.body };
  return callSns({ ...form, ...(Object.fromEntries(entries) as Record<string, string>) }, account, context);
}

export function callEum(action: string, body: object, account: SmsAccount, context: ProviderContext) {
  const headers = {
    'content-type': 'application/x-amz-json-1.0',
    'x-amz-target': `PinpointSMSVoiceV2.${action}`,
  };
  const call = { endpoint: 'sms-voice', service: 'sms-voice', method: 'POST', path: '/', headers } as const;
  return callAws({ ...call, body: JSON.stringify(body) }, account, context);
}

export function callSns(
  form: Readonly<Record<string, string>>,
  account: SmsAccount,
  context: ProviderContext,
) {
  const headers = { 'content-type': 'application/x-www-form-urlencoded; charset=utf-8' };
  const body = new URLSearchParams({ ...form, Version: '2010-03-31' }).toString();
  return callAws(
    { endpoint: 'sns', service: 'sns', method: 'POST', path: '/', headers, body },
    account,
    context,
  );
}
