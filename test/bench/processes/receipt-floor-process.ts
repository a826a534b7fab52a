// The floor of receipt intake: fastify reads the raw body, and no work is behind it.
import { fastify } from 'fastify';

const app = fastify();
app.removeAllContentTypeParsers();
app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
app.post('/v1/receipts/:providerId/:token', (_request, reply) =>
  reply.code(200).type('text/xml').send('<Response/>'),
);
app.get('/readyz', async () => ({}));
await app.listen({ host: '127.0.0.1', port: Number(process.env['PORT']) });
await new Promise((resolve) => process.once('SIGTERM', resolve));
await app.close();
