import { escapeHtml } from '#core/domain/text/escape-html.ts';

/** Markup that is inserted into a page unescaped. Only `html` creates it. */
export type Html = { readonly markup: string };

type Value = string | number | Html | readonly Html[];

/** A template tag that escapes its values unless they are markup. */
export function html(parts: TemplateStringsArray, ...values: readonly Value[]): Html {
  const markup = parts.map((part, index) => {
    const value = values[index];
    return value === undefined ? part : part + markupOf(value);
  });
  return { markup: markup.join('') };
}

function markupOf(value: Value): string {
  if (typeof value === 'string' || typeof value === 'number') return escapeHtml(String(value));
  return 'markup' in value ? value.markup : value.map(({ markup }) => markup).join('');
}

export type Page = {
  readonly title: string;
  readonly content: Html;
  /** Reloads the page after this many seconds. */
  readonly refreshSeconds?: number;
};

/** Renders a complete page of the quick start. */
export function renderPage({ title, content, refreshSeconds }: Page): string {
  const refresh =
    refreshSeconds === undefined ? html`` : html`<meta http-equiv="refresh" content="${refreshSeconds}" />`;
  return html`<!doctype html>
    <html lang="en">
      <meta charset="utf-8" />
      <meta name="viewport" content="width=device-width, initial-scale=1" />
      ${refresh}
      <title>${title} · Despatch quick start</title>
      <style>
        body {
          font:
            15px/1.5 system-ui,
            sans-serif;
          margin: 2rem auto;
          max-width: 70rem;
          padding: 0 1rem;
          color: #1c2330;
        }
        h1 {
          font-size: 1.3rem;
        }
        a {
          color: #1d4ed8;
        }
        table {
          border-collapse: collapse;
          width: 100%;
        }
        th,
        td {
          text-align: left;
          padding: 0.4rem 0.8rem 0.4rem 0;
          vertical-align: top;
        }
        tr + tr td {
          border-top: 1px solid #d9dee7;
        }
        th {
          color: #5b6473;
          font-weight: 600;
        }
        pre {
          background: #f4f6f9;
          padding: 0.8rem;
          overflow-x: auto;
          white-space: pre-wrap;
          overflow-wrap: anywhere;
          margin: 0;
        }
        h1,
        p,
        td {
          overflow-wrap: anywhere;
        }
        .list {
          table-layout: fixed;
        }
        .list th:not(:last-child) {
          width: 20%;
        }
        .facts th {
          width: 12rem;
          overflow-wrap: anywhere;
        }
        .facts td {
          white-space: pre-wrap;
        }
        article {
          border-top: 1px solid #d9dee7;
          padding: 0.6rem 0;
        }
        article p {
          margin: 0.2rem 0;
        }
        article pre {
          max-height: 24rem;
          overflow-y: auto;
        }
        iframe {
          width: 100%;
          height: 32rem;
          resize: vertical;
          overflow: auto;
          background: white;
          border: 1px solid #d9dee7;
        }
        .quiet {
          color: #5b6473;
        }
      </style>
      ${content}
    </html> `.markup;
}

/** Headers of every page: it may not load or run anything. */
export const PAGE_HEADERS: Readonly<Record<string, string>> = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy':
    "default-src 'none'; style-src 'unsafe-inline'; frame-src 'self'; base-uri 'none'; form-action 'none'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-store',
};
