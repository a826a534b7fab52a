const NUMBER = /^\+[1-9]\d{1,14}$/;
const SHORT_CODE = /^\d{3,8}$/;
/** The widest alphabet that a vendor accepts; at least one letter, so that it is not mistaken for a number. */
const NAME = /^(?=.*[A-Za-z])[A-Za-z0-9 +_&-]{1,11}$/;

/** The rule in words, for errors and documentation. */
export const SMS_SENDER_RULE =
  'Must be an E.164 number, a short code of 3 to 8 digits, or a name of at most 11 letters, digits, spaces and + - _ & with at least one letter';

/** Returns whether a text can be the sender of an sms with any provider; whether the account owns it is checked by the vendor. */
export function isSmsSender(text: string): boolean {
  return NUMBER.test(text) || SHORT_CODE.test(text) || NAME.test(text);
}
