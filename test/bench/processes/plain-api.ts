import { createHash } from 'node:crypto';
import { fastify } from 'fastify';
import { serializerCompiler, validatorCompiler, type ZodTypeProvider } from 'fastify-type-provider-zod';
import { z } from 'zod';

const Body = z.object({
  channel: z.enum(['sms', 'email', 'push', 'whatsapp']),
  to: z.string().min(1).max(200),
  body: z.string().min(1).max(4096),
  externalId: z.string().max(255),
  category: z.enum(['transactional', 'otp', 'marketing']).default('transactional'),
  metadata: z.record(z.string(), z.string()).optional(),
  tags: z.array(z.string()).max(10).optional(),
  deliveryGuarantee: z.enum(['at_least_once', 'at_most_once']).default('at_least_once'),
});
const Accepted = z.object({
  id: z.string(),
  status: z.string(),
  channel: z.string(),
  to: z.string(),
  enqueuedAt: z.string(),
});

export type PlainRequest = z.output<typeof Body>;

/**
 * Serves the api's send request with fastify and zod, for contestants that bring only the part behind it. With API_KEYS in the
 * environment, keys are checked by their hash in a map. Runs until SIGTERM.
 */
export async function servePlainApi(
  accept: (request: PlainRequest) => Promise<string> | string,
): Promise<void> {
  const keys = process.env['API_KEYS']?.split(',');
  const known = new Set(keys?.map(hashOf));
  const app = fastify().withTypeProvider<ZodTypeProvider>();
  app.setValidatorCompiler(validatorCompiler);
  app.setSerializerCompiler(serializerCompiler);
  app.post(
    '/v1/messages',
    { schema: { body: Body, response: { 202: Accepted, 401: z.object({}) } } },
    async ({ body, headers }, reply) => {
      if (keys !== undefined && !known.has(hashOf(String(headers['x-service-key'])))) {
        return reply.code(401).send({});
      }
      const { channel, to } = body;
      const enqueuedAt = new Date().toISOString();
      const id = await accept(body);
      return reply.code(202).send({ id, status: 'queued', channel, to, enqueuedAt });
    },
  );
  app.get('/readyz', async () => ({}));
  await app.listen({ host: '127.0.0.1', port: Number(process.env['PORT']) });
  await new Promise((resolve) => process.once('SIGTERM', resolve));
  await app.close();
}

function hashOf(key: string): string {
  return createHash('sha256').update(key).digest('base64');
}
