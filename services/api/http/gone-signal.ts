import type { ServerResponse } from 'node:http';

/** Fires when a client goes before it has its whole answer. */
export function goneSignal(response: ServerResponse | null): AbortSignal {
  const going = new AbortController();
  if (response?.destroyed === true) going.abort();
  else
    response?.once('close', () => {
      if (!response.writableFinished) going.abort();
    });
  return going.signal;
}
