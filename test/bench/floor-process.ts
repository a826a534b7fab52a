// The floor of acceptance: fastify and zod, and no work at all behind them.
import { randomUUID } from 'node:crypto';
import { fastify } from 'fastify';
import { serializerCompiler, validatorCompiler, type ZodTypeProvider } from 'fastify-type-provider-zod';
import { z } from 'zod';

const Body = z.object({
  channel: z.enum(['sms', 'email', 'push', 'whatsapp']),
  to: z.string().min(1).max(200),
  body: z.string().min(1).max(4096),
  externalId: z.string().max(255).optional(),
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

const app = fastify().withTypeProvider<ZodTypeProvider>();
app.setValidatorCompiler(validatorCompiler);
app.setSerializerCompiler(serializerCompiler);
app.post('/v1/messages', { schema: { body: Body, response: { 202: Accepted } } }, async ({ body }, reply) => {
  const { channel, to } = body;
  return reply
    .code(202)
    .send({ id: randomUUID(), status: 'queued', channel, to, enqueuedAt: new Date().toISOString() });
});
app.get('/readyz', async () => ({}));
await app.listen({ host: '127.0.0.1', port: Number(process.env['PORT']) });
process.once('SIGTERM', () => void app.close());
