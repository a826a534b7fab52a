// Process that does nothing but call the provider: the floor of a drain.
import { Pool } from 'undici';
import { answerCommands } from './helper.ts';

export type LoopCommand = { readonly port: number; readonly messages: number; readonly connections: number };

answerCommands<LoopCommand, number>(async ({ port, messages, connections }) => {
  const pool = new Pool(`http://127.0.0.1:${port}`, { connections, pipelining: 1 });
  const headers = {
    authorization: `Basic ${Buffer.from(`AC${'0'.repeat(32)}:${'1'.repeat(32)}`).toString('base64')}`,
    accept: 'application/json',
    'content-type': 'application/x-www-form-urlencoded',
  };
  let next = 0;
  const call = async (): Promise<void> => {
    while (next < messages) {
      const digits = String(next++).padStart(9, '0');
      const { body } = await pool.request({
        method: 'POST',
        path: `/2010-04-01/Accounts/AC${'0'.repeat(32)}/Messages.json`,
        headers,
        body: `To=%2B1555${digits.slice(-7)}&From=%2B15550009999&Body=m${digits}+Your+parcel+is+on+its+way+and+will+reach+you+between+nine+and+noon.`,
      });
      await body.text();
    }
  };
  await Promise.all(Array.from({ length: connections }, call));
  await pool.close();
  return messages;
});
