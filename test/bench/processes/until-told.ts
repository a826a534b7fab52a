import { once } from 'node:events';
import { createServer } from 'node:http';

/** Serves readiness on its port, for a program that serves nothing else, and waits for SIGTERM. */
export async function untilTold(): Promise<void> {
  const server = createServer((_, response) => void response.end('{}'));
  server.listen(Number(process.env['PORT']), '127.0.0.1');
  await once(process, 'SIGTERM');
  server.close();
  server.closeAllConnections();
}
