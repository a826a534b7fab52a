import { expect, test } from 'vitest';
import { configWarnings, misplacedSecrets } from './config-keys.ts';
import { PROVIDERS } from './registry.gen.ts';

const twilio = PROVIDERS.get('twilio');
if (twilio === undefined) throw new Error('twilio is part of the catalog');

test('known settings in camelCase or snake_case cause no warning', () => {
  const sent = { accountSid: 'x', api_key_sid: 'x', messagingServiceSid: 'x' };
  expect(configWarnings(twilio, sent, { auth_token: 'x' })).toEqual([]);
});

test('an unknown key that is null causes no warning, and holds no secret', () => {
  expect(configWarnings(twilio, { note: null, acountSid: null }, { hunter2: null })).toEqual([]);
  expect(misplacedSecrets(twilio, { auth_token: null, authTokn: null })).toEqual([]);
});

test('a typo in a setting gets a suggestion, listed before unknown settings', () => {
  expect(configWarnings(twilio, { note: 1, acountSid: 'x', mesaging_service_sid: 'x' })).toEqual([
    { field: 'publicConfig.acountSid', message: "Unknown setting, ignored: did you mean 'accountSid'?" },
    {
      field: 'publicConfig.mesaging_service_sid',
      message: "Unknown setting, ignored: did you mean 'messagingServiceSid'?",
    },
    { field: 'publicConfig.note', message: 'Unknown setting, ignored' },
  ]);
});

test('a warning about an unknown secret field does not repeat its name', () => {
  const warnings = configWarnings(twilio, {}, { api_key_secrt: 'x', hunter2: 'x' });
  expect(warnings).toEqual([
    { field: 'secretConfig', message: "Has an unknown field, ignored: did you mean 'apiKeySecret'?" },
    { field: 'secretConfig', message: 'Has an unknown field, ignored' },
  ]);
});

test('a secret in publicConfig is rejected in camelCase and snake_case', () => {
  expect(misplacedSecrets(twilio, { accountSid: 'x', note: 'x' })).toEqual([]);
  expect(misplacedSecrets(twilio, { auth_token: 'x', apiKeySecret: 'x' })).toMatchObject([
    { field: 'publicConfig.authToken', rule: 'secret' },
    { field: 'publicConfig.apiKeySecret', rule: 'secret' },
  ]);
});

test.each(['AuthToken', 'authtoken', 'auth-token', 'AUTH_TOKEN', 'authTokn'])(
  'a secret in publicConfig is rejected when spelled %s, under its real name',
  (key) => {
    const faults = misplacedSecrets(twilio, { accountSid: 'x', [key]: 'hunter2' });
    expect(faults).toMatchObject([{ field: 'publicConfig.authToken', rule: 'secret' }]);
    expect(JSON.stringify(faults)).not.toContain('hunter2');
  },
);

test('a misspelled setting name is not mistaken for a secret', () => {
  expect(misplacedSecrets(twilio, { acountSid: 'x', account_SID: 'x' })).toEqual([]);
});
