import { ses } from './ses.ts';
import { awsSms } from './sms.ts';

/** The AWS services that send messages; they share keys, signature and event delivery through SNS. */
export default [awsSms, ses] as const;
