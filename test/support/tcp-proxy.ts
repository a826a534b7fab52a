import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { finished } from 'node:stream';

export type Direction = 'up' | 'down';

/** What one connection says, in order: `up` from the client, `down` from the server. */
export type Inspector = (direction: Direction, bytes: Buffer) => readonly string[];

export type TcpProxy = AsyncDisposable & {
  readonly port: number;
  /** Ends all connections at once, as a network that resets them. */
  readonly cut: () => void;
  /** From now on nothing passes, and nobody is told. */
  readonly freeze: () => void;
  readonly thaw: () => void;
  /**
   * Waits for a moment that the inspector names. What comes with it is held on its connection, both ways, until the
   * moment is let go.
   */
  readonly hold: (moment: string) => HeldMoment;
};

export type HeldMoment = {
  readonly reached: Promise<void>;
  /** Lets the bytes pass, or cuts the connection in their place. Before the moment: gives it up. */
  readonly release: (how: 'pass' | 'cut') => void;
};

type Link = { readonly client: Socket; readonly server: Socket };
type Hold = {
  readonly moment: string;
  readonly reached: PromiseWithResolvers<void>;
  readonly released: PromiseWithResolvers<'pass' | 'cut'>;
};

/** Stands between a client and a server on loopback. @param inspect makes one inspector for each connection. */
export async function startTcpProxy(
  target: number,
  inspect: () => Inspector = () => () => [],
): Promise<TcpProxy> {
  const links = new Set<Link>();
  const holds = new Set<Hold>();
  let frozen: PromiseWithResolvers<void> | undefined;

  const server = createServer({ noDelay: true }, (client) => {
    const upstream = connect({ host: '127.0.0.1', port: target, noDelay: true });
    const link: Link = { client, server: upstream };
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
        // What was sent before the end still goes out, unless it is held.
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
