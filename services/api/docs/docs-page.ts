import fastify, { type FastifyInstance, type FastifyReply } from 'fastify';
import { pageDocument } from './page-document.ts';
import { installProviderPages } from './provider-pages.ts';
import { staticAsset } from './static-asset.ts';

export type DocsPageOptions = {
  /** Returns the OpenAPI document; called once, after all routes are registered. */
  readonly document: () => Record<string, unknown>;
  /** The server that the reader's requests are sent to. */
  readonly serverUrl: string;
};

/** The page loads everything from this origin. The renderer adds its styles by script. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data: blob:",
  "font-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

// Relative URLs, so that the page works behind a gateway that serves it under another path.
const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Despatch API</title>
<link rel="icon" href="data:,">
</head>
<body>
<noscript>This page needs JavaScript. The same as an OpenAPI document: <a href="v1/openapi.json">openapi.json</a></noscript>
<div id="reference"></div>
<script src="docs/reference.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
`;

/**
 * Settings of the renderer (https://github.com/scalar/scalar): nothing is loaded from or sent to third parties, and the
 * languages are those of our own examples.
 */
const SETTINGS = {
  url: 'docs/openapi.json',
  withDefaultFonts: false,
  telemetry: false,
  hideClientButton: true,
  showDeveloperTools: 'never',
  agent: { disabled: true },
  mcp: { disabled: true },
  documentDownloadType: 'json',
  // The first column contains names.
  customCss: '.markdown table :is(th, td:first-child code) { white-space: nowrap }',
  metaData: { title: 'Despatch API' },
  defaultHttpClient: { targetKey: 'shell', clientKey: 'curl' },
  hiddenClients: {
    c: true,
    clojure: true,
    csharp: true,
    dart: true,
    fsharp: true,
    http: true,
    java: true,
    js: ['axios', 'jquery', 'ofetch', 'xhr'],
    kotlin: true,
    node: true,
    objc: true,
    ocaml: true,
    php: true,
    powershell: true,
    python: ['aiohttp', 'httpx_async', 'httpx_sync', 'requests'],
    r: true,
    ruby: true,
    rust: true,
    shell: ['httpie', 'wget'],
    swift: true,
  },
};

/** Serves `/docs`: guides, reference and search in one page, from this origin only. Call before other routes are added. */
export function installDocsPage(app: FastifyInstance, { document, serverUrl }: DocsPageOptions): void {
  const page = staticAsset({
    contentType: 'text/html; charset=utf-8',
    maxAgeSeconds: 0,
    load: () => Buffer.from(PAGE),
  });
  const start = staticAsset({
    contentType: 'text/javascript; charset=utf-8',
    maxAgeSeconds: 0,
    load: () => Buffer.from(`Scalar.createApiReference('#reference', ${JSON.stringify(SETTINGS)});\n`),
  });
  const shownDocument = staticAsset({
    contentType: 'application/json; charset=utf-8',
    maxAgeSeconds: 0,
    load: () => Buffer.from(JSON.stringify(pageDocument(document(), serverUrl))),
  });
  const renderer = staticAsset({
    contentType: 'text/javascript; charset=utf-8',
    maxAgeSeconds: 3_600,
    load: loadRenderer,
  });
  const hidden = { schema: { hide: true } };
  const guard = (reply: FastifyReply): FastifyReply =>
    reply.headers({
      'content-security-policy': CONTENT_SECURITY_POLICY,
      'referrer-policy': 'no-referrer',
    });
  app.get('/docs', hidden, (request, reply) => page(request, guard(reply)));
  app.get('/docs/', hidden, (_request, reply) => reply.redirect('../docs', 308));
  app.get('/docs/start.js', hidden, start);
  app.get('/docs/openapi.json', hidden, shownDocument);
  app.get('/docs/reference.js', hidden, renderer);
  installProviderPages(app);
}

/** The package exposes its script only through its plugin, so a server that never listens requests it from there. */
async function loadRenderer(): Promise<Buffer> {
  const { default: scalar } = await import('@scalar/fastify-api-reference');
  await using server = fastify();
  await server.register(scalar, { routePrefix: '/docs', configuration: { url: '/' } });
  const { statusCode, rawPayload } = await server.inject('/docs/js/scalar.js');
  if (statusCode !== 200) throw new Error(`the renderer of the docs page is missing: ${statusCode}`);
  return rawPayload;
}
