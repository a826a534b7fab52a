/** The Twilio account ids of the first step of an sms route, and of the steps after it, begin with these prefixes. */
export const FIRST_ACCOUNTS = 'AC0';
export const NEXT_ACCOUNTS = 'AC1';
