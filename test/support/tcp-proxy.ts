import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { finished } from 'node:stream';

export type Direction = 'up' | 'down';

/** Receives the bytes of one connection in order, `up` from the client and `down` from the server, and returns moments. */
export type Inspector = (direction: Direction, bytes: Buffer) => readonly string[];

export type TcpProxy = AsyncDisposable & {
  readonly port: number;
  /** Ends all connections at once, as a network that resets them. */
  readonly cut: () => void;
  /** Stops all traffic from now on, without closing connections. */
  readonly freeze: () => void;
  readonly thaw: () => void;
  /** Loses the server's side of all connections without a word to the client, as when its node is lost. New connections pass. */
  readonly strand: () => void;
  /**
   * Waits for a moment that the inspector names. The bytes of that moment, and all later ones of the connection in both
   * directions, are held until the moment is released.
   */
  readonly hold: (moment: string) => HeldMoment;
};

export type HeldMoment = {
  readonly reached: Promise<void>;
  /** Forwards the bytes, or cuts the connection instead. Called before the moment, it cancels the wait. */
  readonly release: (how: 'pass' | 'cut') => void;
};

type Link = { readonly client: Socket; readonly server: Socket; isStranded: boolean };
type Hold = {
  readonly moment: string;
  readonly reached: PromiseWithResolvers<void>;
  readonly released: PromiseWithResolvers<'pass' | 'cut'>;
};

/** Starts a proxy between a client and a server on loopback. @param inspect creates an inspector for each connection. */
export async function startTcpProxy(
  target: number,
  inspect: () => Inspector = () => () => [],
): Promise<TcpProxy> {
  const links = new Set<Link>();
  const holds = new Set<Hold>();
  let frozen: PromiseWithResolvers<void> | undefined;

  const server = createServer({ noDelay: true }, (client) => {
    const upstream = connect({ host: '127.0.0.1', port: target, noDelay: true });
    const link: Link = { client, server: upstream, isStranded: false };
    const inspector = inspect();
    /** Set while a moment of this connection is held. */
    let held: Promise<'pass' | 'cut'> | undefined;
    links.add(link);
    const end = (): void => {
      client.destroy();
      upstream.destroy();
      links.delete(link);
    };

    const pipe = (direction: Direction, from: Socket, to: Socket): void => {
      from.on('data', (bytes: Buffer) => {
        if (link.isStranded) return;
        const moments = inspector(direction, bytes);
        const hold = [...holds].find(({ moment }) => moments.includes(moment));
        if (hold !== undefined) {
          holds.delete(hold);
          held = hold.released.promise;
          hold.reached.resolve();
        }
        if (held === undefined && frozen === undefined) {
          if (!to.write(bytes)) {
            from.pause();
            to.once('drain', () => from.resume());
          }
          return;
        }
        from.pause();
        void Promise.all([held, frozen?.promise]).then(([how]) => {
          held = undefined;
          if (how === 'cut') return end();
          to.write(bytes);
          from.resume();
        });
      });
      finished(from, () => {
        if (link.isStranded && from === upstream) return;
        // Bytes that were sent before the end are still forwarded, unless they are held.
        if (held === undefined && frozen === undefined) to.end();
        else end();
      });
      from.on('close', () => {
        if (client.destroyed && upstream.destroyed) links.delete(link);
      });
    };
    pipe('up', client, upstream);
    pipe('down', upstream, client);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');

  const cut = (): void => {
    for (const { client, server: upstream } of links) {
      client.resetAndDestroy();
      upstream.destroy();
    }
    links.clear();
  };
  return {
    port: (server.address() as AddressInfo).port,
    cut,
    freeze: () => {
      frozen ??= Promise.withResolvers();
    },
    thaw: () => {
      frozen?.resolve();
      frozen = undefined;
    },
    strand() {
      for (const link of links) {
        link.isStranded = true;
        link.server.destroy();
      }
    },
    hold(moment) {
      const hold: Hold = { moment, reached: Promise.withResolvers(), released: Promise.withResolvers() };
      holds.add(hold);
      return {
        reached: hold.reached.promise,
        release: (how) => {
          holds.delete(hold);
          hold.released.resolve(how);
        },
      };
    },
    async [Symbol.asyncDispose]() {
      cut();
      server.close();
      await once(server, 'close');
    },
  };
}
