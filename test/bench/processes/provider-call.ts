import { Pool } from 'undici';

/** The most connections of contestants other than the worker, whose connections are bounded by its calls in flight. */
export const PROVIDER_CONNECTIONS = 64;

export type CallProvider = AsyncDisposable & ((to: string, body: string) => Promise<void>);

const ACCOUNT = `AC${'0'.repeat(32)}`;
const HEADERS = {
  authorization: `Basic ${Buffer.from(`${ACCOUNT}:${'1'.repeat(32)}`).toString('base64')}`,
  accept: 'application/json',
  'content-type': 'application/x-www-form-urlencoded',
};

/**
 * Returns the provider call that the worker makes for each message, without the work around it. @throws unless the provider
 * accepts.
 */
export function createProviderCall(port: number, connections = PROVIDER_CONNECTIONS): CallProvider {
  const pool = new Pool(`http://127.0.0.1:${port}`, { connections, pipelining: 1 });
  const call = async (to: string, text: string): Promise<void> => {
    const { statusCode, body } = await pool.request({
      method: 'POST',
      path: `/2010-04-01/Accounts/${ACCOUNT}/Messages.json`,
      headers: HEADERS,
      body: `To=${encodeURIComponent(to)}&From=%2B15550009999&Body=${encodeURIComponent(text)}`,
    });
    await body.text();
    if (statusCode !== 201) throw new Error(`the provider answered ${statusCode}`);
  };
  return Object.assign(call, { [Symbol.asyncDispose]: () => pool.close() });
}
