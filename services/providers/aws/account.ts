import { z } from 'zod';
import { optionalToken, token } from '../fields.ts';
import { secretStrings } from '../redact.ts';
import { REGION } from './aws-host.ts';

const TEXT_LENGTH_MAX = 4_096;

const Region = z
  .string()
  .regex(REGION, 'Must be an AWS region such as eu-central-1')
  .describe('AWS region that sends, for example eu-central-1.');

const AccessKeyId = z
  .string()
  .regex(/^[A-Z0-9]{16,128}$/, 'Must be 16 to 128 upper-case letters and digits')
  .describe('Id of the access key, for example AKIAIOSFODNN7EXAMPLE.');

/** Settings that every AWS service needs. */
export const awsSettings = { region: Region, accessKeyId: AccessKeyId };

export const awsSecrets = z.object({
  secretAccessKey: token('Secret of the access key.'),
  sessionToken: optionalToken('Session token, where the access key is a temporary one.'),
});

export function topicArn(events: string) {
  return z
    .string()
    .regex(
      /^arn:aws(?:-[a-z-]+)?:sns:[a-z0-9-]{5,32}:\d{12}:[A-Za-z0-9_-]{1,256}$/,
      'Must be the ARN of a standard SNS topic',
    )
    .optional()
    .describe(
      `ARN of the SNS topic that ${events} are published to. Receipts from other topics are refused.`,
    );
}

export const configurationSet = z
  .string()
  .regex(/^[A-Za-z0-9_-]{1,64}$/, 'Must be letters, digits, - and _, at most 64')
  .optional();

export type AwsAccount = {
  readonly config: { readonly region: string; readonly accessKeyId: string };
  readonly secrets: z.output<typeof awsSecrets>;
};

/** @param further recipient and content; texts longer than an error message can hold are left out. */
export function secretsToRedact({ secrets }: AwsAccount, ...further: readonly string[]): string[] {
  return [...secretStrings(secrets), ...further.filter(({ length }) => length <= TEXT_LENGTH_MAX)];
}
