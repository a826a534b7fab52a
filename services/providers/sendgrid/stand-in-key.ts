import { createPrivateKey } from 'node:crypto';

/** The stand-in's signing key, the same for all accounts. For stand-ins only. */
export const STAND_IN_KEY = createPrivateKey({
  key: 'MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQghyT/GX1ll+tpiBUTpYv73Yo5Tt+fZUw6fd3S43Cx6ZyhRANCAASZJYzzXTLr9LIntnorTZiZ6y6w9UVVhe2Q9C5o7o5qxkns9IUs1uYZYxpwidC53TWoyuCKsGRSCblJtvEQ/4/d',
  encoding: 'base64',
  format: 'der',
  type: 'pkcs8',
});

/** The public half, as SendGrid shows it: the setting `webhookPublicKey` of accounts whose messages go to the stand-in. */
export const STAND_IN_PUBLIC_KEY =
  'MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEmSWM810y6/SyJ7Z6K02YmesusPVFVYXtkPQuaO6OasZJ7PSFLNbmGWMacInQud01qMrgirBkUgm5SbbxEP+P3Q==';
