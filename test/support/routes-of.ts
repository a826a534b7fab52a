import type { FastifyInstance } from 'fastify';

export type ServedRoute = { readonly method: string; readonly path: string };

/** Returns every route of the application from its router, so that a test cannot miss one. */
export function routesOf(app: FastifyInstance): ServedRoute[] {
  const routes: ServedRoute[] = [];
  const parents: string[] = [];
  for (const line of app.printRoutes({ commonPrefix: false }).split('\n')) {
    const found = /^((?:│ {3}| {4})*)(?:├──|└──) (\S+)(?: \(([A-Z, ]+)\))?/.exec(line);
    if (found === null) continue;
    const [, indent = '', part = '', methods = ''] = found;
    const depth = indent.length / 4;
    parents.length = depth;
    const path = parents.join('') + part;
    parents.push(part);
    for (const method of methods.split(', ').filter((name) => name !== '' && name !== 'HEAD')) {
      routes.push({ method, path });
    }
  }
  return routes;
}
