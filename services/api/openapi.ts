import swagger from '@fastify/swagger';
import type { FastifyInstance } from 'fastify';
import { jsonSchemaTransform } from 'fastify-type-provider-zod';

/** Serves `/v1/openapi.json` and `/docs`, both made from the schemas of the routes. */
export async function installDocs(app: FastifyInstance, publicBaseUrl: string): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: { title: 'Despatch', version: '1.0.0', description: 'Multi-channel messaging.' },
      servers: [{ url: publicBaseUrl }],
    },
    transform: jsonSchemaTransform,
  });
}
