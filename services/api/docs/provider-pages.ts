import type { FastifyInstance, FastifyReply } from 'fastify';
import { z } from 'zod';
import { orNotFound } from '#core/domain/fault/app-error.ts';
import { CHANNELS } from '#core/domain/message/channel.ts';
import { PROVIDERS } from '#providers/registry.gen.ts';
import { escapeHtml } from '#core/domain/text/escape-html.ts';
import { code, TEXT_PAGE_HEADERS, webPage } from './html.ts';
import { providerPage } from './provider-page.ts';
import { staticAsset, type SendAsset } from './static-asset.ts';

const Params = z.object({ provider: z.string() });

/** Serves `/docs/providers` and a page for each provider below it. The pages need no scripts and no other origin. */
export function installProviderPages(app: FastifyInstance): void {
  const index = pageAsset(providerIndex);
  const pages = new Map(
    [...PROVIDERS.values()].map((provider) => [provider.id, pageAsset(() => providerPage(provider))]),
  );
  const hidden = { schema: { hide: true } };
  const guard = (reply: FastifyReply): FastifyReply => reply.headers(TEXT_PAGE_HEADERS);
  app.get('/docs/providers', hidden, (request, reply) => index(request, guard(reply)));
  app.get('/docs/providers/', hidden, (_request, reply) => reply.redirect('../providers', 308));
  app.get('/docs/providers/:provider', hidden, (request, reply) => {
    const page = orNotFound(pages.get(Params.parse(request.params).provider));
    return page(request, guard(reply));
  });
}

function pageAsset(make: () => string): SendAsset {
  return staticAsset({
    contentType: 'text/html; charset=utf-8',
    maxAgeSeconds: 0,
    load: () => Buffer.from(make()),
  });
}

function providerIndex(): string {
  const sections = CHANNELS.map((channel) => {
    const items = [...PROVIDERS.values()]
      .filter((provider) => provider.channel === channel)
      .map(
        ({ id, name }) =>
          `<li><a href="providers/${escapeHtml(id)}">${escapeHtml(name)}</a> ${code(id)}</li>`,
      );
    return `<h2>${escapeHtml(channel)}</h2>\n<ul>\n${items.join('\n')}\n</ul>`;
  });
  const head = '<nav><a href="../docs">Documentation</a></nav>\n<h1>Providers</h1>';
  return webPage({ title: 'Providers', body: [head, ...sections].join('\n') });
}
