import { describe, expect, test } from 'vitest';
import { signedRequestHeaders } from './sign.ts';

const keys = { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY' };
const now = Date.UTC(2015, 7, 30, 12, 36);
const sign = (
  request: Partial<Parameters<typeof signedRequestHeaders>[0]>,
  scope: Partial<Parameters<typeof signedRequestHeaders>[1]> = {},
) =>
  signedRequestHeaders(
    { method: 'GET', url: 'https://example.amazonaws.com/', headers: {}, body: '', ...request },
    { service: 'service', region: 'us-east-1', keys, now, ...scope },
  );
const signatureOf = (headers: Record<string, string>) =>
  /Signature=(\w+)$/.exec(headers['authorization'] ?? '')?.[1];

/** The AWS signature test suite and the examples in AWS's documentation. */
describe('a signature', () => {
  test.each([
    ['get-vanilla', {}, '5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31'],
    [
      'get-vanilla-query-order-key-case',
      { url: 'https://example.amazonaws.com/?Param2=value2&Param1=value1' },
      'b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500',
    ],
    ['post-vanilla', { method: 'POST' }, '5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b'],
    [
      'post-x-www-form-urlencoded',
      {
        method: 'POST',
        headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
        body: 'Param1=value1',
      },
      'ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a',
    ],
    [
      'get-header-value-trim',
      { headers: { 'My-Header1': ' value1', 'My-Header2': ' "a   b   c"' } },
      'acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736',
    ],
  ] as const)('equals that of the AWS test case %s', (_, request, signature) => {
    expect(signatureOf(sign(request))).toBe(signature);
  });

  test('covers the session token of temporary keys', () => {
    const sessionToken =
      'AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==';
    const headers = sign({ method: 'POST' }, { keys: { ...keys, sessionToken } });
    expect(headers['x-amz-security-token']).toBe(sessionToken);
    expect(signatureOf(headers)).toBe('85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead');
  });

  test('gives the complete headers of the documented IAM call', () => {
    const headers = sign(
      {
        url: 'https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08',
        headers: { 'content-type': 'application/x-www-form-urlencoded; charset=utf-8' },
      },
      { service: 'iam' },
    );
    expect(headers).toEqual({
      'content-type': 'application/x-www-form-urlencoded; charset=utf-8',
      'x-amz-date': '20150830T123600Z',
      authorization:
        'AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, SignedHeaders=content-type;host;x-amz-date, Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7',
    });
  });
});
