// Posts prepared bodies to the receiver and does nothing else: the floor of event delivery.
import { readFile } from 'node:fs/promises';
import { Pool } from 'undici';
import { answerCommands } from '../measure/helper.ts';

/** `postsFile` contains paths and bodies; each is posted once. */
export type PostCommand = { readonly port: number; readonly postsFile: string; readonly connections: number };

/** Headers of the same length as in an event delivery. */
const HEADERS = {
  'content-type': 'application/json',
  'webhook-id': '019a0000-0000-7000-8000-000000000001',
  'webhook-timestamp': '1900000000',
  'webhook-signature': `v1,${'0'.repeat(43)}=`,
};

answerCommands<PostCommand, number>(async ({ port, postsFile, connections }) => {
  const posts = JSON.parse(await readFile(postsFile, 'utf8')) as (readonly [path: string, body: string])[];
  const pool = new Pool(`http://127.0.0.1:${port}`, { connections, pipelining: 1 });
  let next = 0;
  const run = async (): Promise<void> => {
    for (let post = posts[next++]; post !== undefined; post = posts[next++]) {
      const [path, body] = post;
      const { statusCode, body: answer } = await pool.request({
        method: 'POST',
        path,
        headers: HEADERS,
        body,
      });
      await answer.dump();
      if (statusCode !== 204) throw new Error(`the receiver answered ${statusCode}`);
    }
  };
  await Promise.all(Array.from({ length: connections }, run));
  await pool.close();
  return posts.length;
});
