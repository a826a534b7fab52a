import type { ServerResponse } from 'node:http';

/** Returns a signal that aborts when the client disconnects before it has the whole answer. */
export function goneSignal(response: ServerResponse | null): AbortSignal {
  const going = new AbortController();
  if (response?.destroyed === true) going.abort();
  else
    response?.once('close', () => {
      if (!response.writableFinished) going.abort();
    });
  return going.signal;
}
