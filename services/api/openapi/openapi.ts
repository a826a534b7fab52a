import type { FastifyInstance } from 'fastify';
import { installDocsPage } from '../docs/docs-page.ts';
import document from '../openapi.json' with { type: 'json' };

/**
 * Serves `/v1/openapi.json`, the generated document with this installation's address, and its page at `/docs`.
 * @param publicBaseUrl The address at which clients reach the api.
 */
export function installDocs(app: FastifyInstance, publicBaseUrl: string): void {
  const served = { ...document, servers: [{ url: publicBaseUrl }] };
  // Built once: anyone may request it, at any rate.
  const bytes = Buffer.from(JSON.stringify(served));
  installDocsPage(app, { document: () => served, serverUrl: publicBaseUrl });
  app.get('/v1/openapi.json', { schema: { hide: true } }, (_request, reply) =>
    reply.type('application/json; charset=utf-8').send(bytes),
  );
}
