import { expect, test } from 'vitest';
import { html, renderPage } from './html.ts';

test('text is escaped, in content and in attributes', () => {
  const hostile = `<script>alert("1")</script>'&`;
  expect(html`<p title="${hostile}">${hostile}</p>`.markup).toBe(
    '<p title="&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&#39;&amp;">' +
      '&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&#39;&amp;</p>',
  );
});

test('nested markup is inserted unescaped, alone or as a list', () => {
  const items = ['a', '<b>'].map((text) => html`<i>${text}</i>`);
  expect(html`${items}|${html`<b>x</b>`}|${7}`.markup).toBe('<i>a</i><i>&lt;b&gt;</i>|<b>x</b>|7');
});

test("a page's title is escaped", () => {
  const page = renderPage({ title: '</title><img>', content: html`<p>x</p>` });
  expect(page).toContain('<title>&lt;/title&gt;&lt;img&gt; · Despatch quick start</title>');
  expect(page).not.toContain('http-equiv');
});
