import { createPrivateKey } from 'node:crypto';

/** The stand-in's signing key in place of Telnyx's own, so it is the same for all accounts. For stand-ins only. */
export const STAND_IN_KEY = createPrivateKey({
  key: 'MC4CAQAwBQYDK2VwBCIEINX2hh26CcWN0zSbj31yfuXMzwDEXMJAlnRY+u0Tg5Hr',
  encoding: 'base64',
  format: 'der',
  type: 'pkcs8',
});

/** The public half, as Telnyx shows it: the setting `publicKey` of accounts whose messages go to the stand-in. */
export const STAND_IN_PUBLIC_KEY = 'uk4yaups1mTFk2Nu4DCC26NtV5cu3f1acKHrONb+qI0=';
