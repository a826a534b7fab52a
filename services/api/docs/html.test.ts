import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { escapeHtml } from '#core/domain/text/escape-html.ts';
import { code, list, prose, table, TEXT_PAGE_HEADERS, webPage } from './html.ts';

const EVIL = `<script>alert("1")</script>&'`;

test('every helper escapes HTML in its text', () => {
  const inert = '&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;&#39;';
  expect(escapeHtml(EVIL)).toBe(inert);
  expect(code(EVIL)).toBe(`<code>${inert}</code>`);
  expect(prose(`a \`${EVIL}\` b`)).toBe(`a <code>${inert}</code> b`);
  expect(list('ol', [EVIL])).toBe(`<ol>\n<li>${inert}</li>\n</ol>`);
  expect(webPage({ title: EVIL, body: '' })).toContain(`<title>${inert} - Despatch</title>`);
});

test('a table has a header row only if it has headings', () => {
  expect(table(['A'], [['1']])).toBe('<table>\n<tr><th>A</th></tr>\n<tr><td>1</td></tr>\n</table>');
  expect(table(['', ''], [['1', '2']])).not.toContain('<th>');
});

test('the content security policy allows the inline style of a page by its hash', () => {
  const [, style = ''] = /<style>([\s\S]*?)<\/style>/.exec(webPage({ title: 'A', body: '' })) ?? [];
  const hash = createHash('sha256').update(style).digest('base64');
  expect(TEXT_PAGE_HEADERS['content-security-policy']).toContain(`style-src 'sha256-${hash}'`);
});
