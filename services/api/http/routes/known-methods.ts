import type { FastifyInstance, FastifyRequest } from 'fastify';
import { pathOf } from '../input/path-of.ts';

export type KnownMethods = {
  /** Returns the methods that a path supports; undefined for an unknown path. */
  readonly of: (url: string) => readonly string[] | undefined;
  /**
   * Whether the router found a route with a parameter for a path that is a route of its own, but not with this method: `PATCH
   * /v1/messages/batch` is not a change of the message `batch`. Or for a path without the parameter, such as `/v1/messages/`. Or
   * for a target that is no path: the router does not look at the first character of `*v1/messages`, but a proxy in front does.
   */
  readonly isMistaken: (request: FastifyRequest) => boolean;
};

type Known = { readonly pattern: RegExp; readonly methods: Set<string> };

const EMPTY_PART = /\/(?:\/|$)/;

/** Collects the methods of the routes that are registered from now on. */
export function knownMethods(app: FastifyInstance): KnownMethods {
  const routes = new Map<string, Known>();
  app.addHook('onRoute', ({ url, method }) => {
    const source = url
      .replace(/[.*+?^${}()|[\]\\]/g, (c) => (c === '*' ? '.*' : `\\${c}`))
      .replace(/:[A-Za-z]+/g, '[^/]+');
    const route = routes.get(url) ?? { pattern: new RegExp(`^${source}$`), methods: new Set(['OPTIONS']) };
    for (const one of [method].flat()) route.methods.add(one);
    routes.set(url, route);
  });
  return {
    of(url) {
      const path = pathOf(url);
      const own = routes.get(path);
      const found =
        own === undefined ? [...routes.values()].filter(({ pattern }) => pattern.test(path)) : [own];
      return found.length === 0
        ? undefined
        : [...new Set(found.flatMap(({ methods }) => [...methods]))].toSorted();
    },
    isMistaken({ url, method, routeOptions }) {
      if (url.startsWith('*')) return true;
      if (routeOptions.url?.includes(':') !== true) return false;
      const path = pathOf(url);
      return EMPTY_PART.test(path) || routes.get(path)?.methods.has(method) === false;
    },
  };
}
