import { describe, expect, test } from 'vitest';
import { redactionsOfUrl, shownUrl, webhookPorts, webhookUrlFault } from './webhook-url.ts';

const rules = {
  allowHttp: false,
  ports: [443, 8443],
  isOpenHost: (host: string): boolean => host === '10.20.0.9',
  isBlockedHost: (host: string): boolean => host === '127.0.0.1' || host === '[::1]',
};
const ruleOf = (url: string, more: Partial<typeof rules> = {}) =>
  webhookUrlFault(url, { ...rules, ...more })?.rule;

describe('the URL of an endpoint', () => {
  test.each([
    'https://example.com',
    'HTTPS://Example.com/hooks?source=a%20b',
    'https://example.com:8443/a/b@c',
    'https://bücher.example/',
    'https://203.0.113.9/x',
  ])('%s is accepted', (url) => {
    expect(ruleOf(url)).toBeUndefined();
  });

  test.each([
    '',
    'example.com/hook',
    '/hook',
    'ftp://example.com/',
    'javascript:alert(1)',
    'https:example.com',
    'https:///example.com',
    'https://',
    'https://user@example.com/',
    'https://user:password@example.com/',
    'https://@example.com/',
    'http://@example.com/',
    'https://example.com/#part',
    'https://example.com\\@inside/',
    'https://example.com/a b',
    ' https://example.com/',
    'https://exam\tple.com/',
    'https://exa\nmple.com/',
    'https://example.com/\u0000',
    'https://[::1/',
    'https://example.com:99999/',
    'https://exa mple.com/',
  ])('%j is refused as malformed', (url) => {
    expect(ruleOf(url, { allowHttp: true })).toBe('url');
  });

  test('must be https unless the operator allows http', () => {
    expect(ruleOf('http://example.com/')).toBe('https');
    expect(ruleOf('http://example.com/', { allowHttp: true, ports: [443, 80] })).toBeUndefined();
  });

  test.each([
    ['https://example.com:8080/', 'port'],
    ['https://example.com:443/', undefined],
    ['https://10.20.0.9:8080/', undefined],
    ['http://example.com/', 'port'],
    ['http://example.com:443/', undefined],
  ])('%s is checked for its port: %s', (url, rule) => {
    expect(ruleOf(url, { allowHttp: true })).toBe(rule);
  });

  test('may have port 443, port 80 if http is allowed, and ports that the operator adds', () => {
    expect([webhookPorts(false, []), webhookPorts(true, [8443, 443])]).toEqual([[443], [443, 80, 8443]]);
  });

  test.each([
    'https://127.0.0.1/',
    'https://127.1:8443/x',
    'https://0x7f000001/',
    'https://2130706433/',
    'https://127.0.0.1./',
    'https://[::1]/',
    'https://localhost/',
    'https://LOCALHOST.:1/',
    'https://a.localhost/',
  ])('%s is blocked as an internal address', (url) => {
    expect(ruleOf(url)).toBe('url_blocked');
    expect(ruleOf(url, { isBlockedHost: () => false, isOpenHost: () => true })).toBeUndefined();
  });
});

test('redactionsOfUrl lists the query values to redact from responses, without short ones', () => {
  expect(redactionsOfUrl('https://example.com/a/long-part-of-the-path')).toEqual([]);
  expect(redactionsOfUrl('https://example.com/?lonely-value')).toEqual(['lonely-value']);
  const url = 'https://example.com/?token=s3cret-s3cret&to=shop&a=x%20long%20one&=12345678&lonely-value';
  expect(redactionsOfUrl(url)).toEqual([
    's3cret-s3cret',
    'x%20long%20one',
    '12345678',
    'lonely-value',
    'x long one',
  ]);
});

test.each([
  ["https://example.com/?key=it's/a-s3cret", 'it%27s/a-s3cret'],
  ['https://example.com/?key=pässwort/2468', 'p%C3%A4sswort/2468'],
  ['https://example.com/?lonely"value/2468', 'lonely%22value/2468'],
])('of %s, redactionsOfUrl lists the value as a request has it', (url, sent) => {
  expect(new URL(url).href).toContain(sent);
  expect(redactionsOfUrl(url)).toContain(sent);
});

test.each([
  ['https://example.com/a/b', 'https://example.com/a/b'],
  ['https://example.com/a?token=s3cret&to=x=y&z', 'https://example.com/a?token=…&to=…&…'],
  ['https://example.com?s3cret', 'https://example.com?…'],
])('%s is shown without the values of its query', (url, shown) => {
  expect(shownUrl(url)).toBe(shown);
});
