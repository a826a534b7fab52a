import type { FastifyInstance } from 'fastify';
import { textPageHeaders } from './html.ts';

const STYLE = `body { font: 16px/1.6 system-ui, sans-serif; margin: 4rem auto; max-width: 34rem; padding: 0 1rem; color: #1c2330 }
a { color: #1d4ed8 }
@media (prefers-color-scheme: dark) { body { background: #11151c; color: #d9dee7 } a { color: #8ab4ff } }`;

// Relative URLs: a proxy may serve the page under another path.
const PAGE = Buffer.from(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Despatch</title>
<style>${STYLE}</style>
<h1>Despatch</h1>
<p>Send sms, email, push and whatsapp messages through your own provider accounts.</p>
<ul>
<li><a href="docs">Documentation</a> of every endpoint, with examples</li>
<li><a href="docs/providers">Providers</a>: credentials, receipts, limits and examples of each</li>
<li><a href="v1/openapi.json">OpenAPI document</a>, for tools and generated clients</li>
</ul>
</html>
`);

const HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  ...textPageHeaders(STYLE),
};

/** Serves `/`, for a person who knows only the host name. Not part of the documented API. */
export function installHomePage(app: FastifyInstance): void {
  app.get('/', { schema: { hide: true } }, (_request, reply) => reply.headers(HEADERS).send(PAGE));
}
