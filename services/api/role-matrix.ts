import type { FastifyInstance, RouteOptions } from 'fastify';
import type { RouteAuth } from './auth.ts';
import type { RouteModule } from './routes-kit.ts';

export type RouteAccess = {
  readonly method: string;
  readonly path: string;
  readonly auth: RouteAuth;
};

/** Who may call which route, read from the routes themselves. */
export function roleMatrix(modules: readonly RouteModule[]): RouteAccess[] {
  const rows: RouteAccess[] = [];
  const recorder = {
    route: ({ method, url, config }: RouteOptions) => {
      rows.push({ method: String(method), path: url, auth: config?.auth ?? { kind: 'none' } });
    },
  };
  for (const addRoutes of modules) addRoutes(recorder as unknown as FastifyInstance);
  return rows;
}

/** The access of a route in words, for people. */
export function describeAccess(auth: RouteAuth): string {
  switch (auth.kind) {
    case 'none':
      return 'anybody';
    case 'key':
      return `service key with ${auth.scope}`;
    case 'bearer':
      return `${auth.role} of the tenant`;
    case 'user':
      return 'any signed-in user';
    case 'either':
      return `service key with ${auth.scope}, or ${auth.role} of the tenant`;
  }
}
