import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo, Server as NetServer } from 'node:net';
import { listenAddress } from '../../deploy/servers/ports.ts';

/** The address at which a stand-in is reachable until it is disposed. */
export type Place = AsyncDisposable & { readonly origin: string };

export type PlaceOptions = {
  /** Address at which clients reach this machine. Default: loopback. */
  readonly host?: string;
  /** Default: a free port. */
  readonly port?: number;
  /** Creates the server, for vendors that use another HTTP version. Default: HTTP/1.1. */
  readonly listen?: (listener: RequestListener) => NetServer & Pick<Server, 'closeAllConnections'>;
};

/** Opens a separate port for one stand-in. */
export async function openPlace(
  { host = '127.0.0.1', port = 0, listen = createServer }: PlaceOptions,
  listener: RequestListener,
): Promise<Place> {
  const server = listen(listener);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(port, listenAddress(host), resolve);
  });
  return {
    origin: `http://${host}:${(server.address() as AddressInfo).port}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
