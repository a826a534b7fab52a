import { ses } from './ses.ts';
import { awsSms } from './sms.ts';

/** The services of AWS that send; they share keys, signature and the way of their events. */
export default [awsSms, ses] as const;
