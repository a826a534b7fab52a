import { expect, test } from 'vitest';
import { scramVerifier } from './scram-verifier.ts';

test('the verifier of the password and salt of RFC 7677 matches its exchange', async () => {
  const verifier = await scramVerifier('pencil', Buffer.from('W22ZaJ0SNY7soEsUEjb6gQ==', 'base64'));
  expect(verifier).toBe(
    'SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=',
  );
});
