const NUMBER = /^\+[1-9]\d{1,14}$/;
const SHORT_CODE = /^\d{3,8}$/;
/** The widest alphabet that a vendor takes; at least one letter, else it would pass for a number. */
const NAME = /^(?=.*[A-Za-z])[A-Za-z0-9 +_&-]{1,11}$/;

/** The rule in words, for errors and documentation. */
export const SMS_SENDER_RULE =
  'Must be an E.164 number, a short code of 3 to 8 digits, or a name of at most 11 letters, digits, spaces and + - _ & with at least one letter';

/** True for what can stand as the sender of an sms with any provider; whether the account owns it is for the vendor. */
export function isSmsSender(text: string): boolean {
  return NUMBER.test(text) || SHORT_CODE.test(text) || NAME.test(text);
}
