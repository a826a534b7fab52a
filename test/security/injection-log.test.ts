import { expect, test } from 'vitest';
import { startDosTarget } from './dos-target.ts';
import { exchangeRaw } from './raw-client.ts';

/** Bytes that HTTP allows in a header and that a terminal or a log reader may interpret. */
const TEXTS = [
  '"},{"level":"error","msg":"injected"}',
  '\\n{"level":"error","msg":"injected"}',
  '\x1b[2J\x1b]0;injected\x07',
  'a\tb\x01\x08\x0b\x0c\x7f',
  'a\x85b\x9bc',
  // The bytes of U+2028, U+202E and an overlong slash.
  'a\xe2\x80\xa8b\xe2\x80\xaec\xc0\xaf',
  '%0d%0a{"level":"error"}',
  '\\u000a${jndi:ldap://a.example}',
  'x'.repeat(5_000),
];

test('no text of a request breaks or adds a log line, or puts a control character into it', async () => {
  await using target = await startDosTarget({ LOG_LEVEL: 'debug' });
  const key = await target.key();
  let sent = 0;
  const request = async (line: string, headers: string): Promise<void> => {
    await exchangeRaw(
      target.port,
      Buffer.from(`${line}\r\nHost: a\r\nConnection: close\r\n${headers}\r\n`, 'latin1'),
    );
    sent += 1;
  };
  for (const text of TEXTS) {
    for (const name of [
      'X-App-Name',
      'X-Request-Id',
      'User-Agent',
      'X-Tenant-Slug',
      'X-Service-Key',
      'Authorization',
      'Idempotency-Key',
      'Traceparent',
      'X-Forwarded-For',
      'Referer',
    ]) {
      await request('GET /v1/messages HTTP/1.1', `X-Service-Key: ${key}\r\n${name}: ${text}\r\n`);
      await request('GET /v1/admin/me HTTP/1.1', `${name}: ${text}\r\n`);
    }
    await request(
      `GET /v1/messages/${text.replace(/[^\x21-\x7e]/g, '%0a')} HTTP/1.1`,
      `X-Service-Key: ${key}\r\n`,
    );
    await request(
      `GET /v1/${text.replace(/[^\x21-\x7e]/g, '%0a')}?a=${text.replace(/[^\x21-\x7e]/g, '%0a')} HTTP/1.1`,
      '',
    );
  }
  const log = await target.api.log();
  const lines = log
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  expect(lines.length).toBeGreaterThan(sent / 2);
  // The log escapes the content of every field, so a terminal that prints the file interprets nothing.
  // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
  expect(log.replaceAll('\n', '')).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e]/);
  for (const line of lines) {
    expect(line).toMatchObject({ component: 'api', level: expect.stringMatching(/^(?:debug|info|warn)$/) });
    expect(line['msg']).not.toContain('injected');
  }
});
