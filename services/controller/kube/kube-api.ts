import {
  createConfiguration,
  CustomObjectsApi,
  PatchStrategy,
  RequestContext,
  ResponseContext,
  setHeaderOptions,
  wrapHttpLibrary,
  type HttpMethod,
} from '@kubernetes/client-node';
import type { KubeConnection } from './kube-credentials.ts';
import type { KubeResource } from './kube-object.ts';

/** The `limit` and `continue` of a page, and the parameters that turn a list into a watch. */
export type KubeListQuery = {
  readonly limit?: number | undefined;
  readonly _continue?: string | undefined;
  readonly resourceVersion?: string | undefined;
  readonly watch?: boolean;
  readonly allowWatchBookmarks?: boolean;
  readonly timeoutSeconds?: number;
};

type Applied = { readonly fieldManager: string; readonly force: true };

/**
 * The operations on the objects of one kind in one namespace. Each one is a single request and resolves to the answer's
 * JSON.
 */
export type KubeObjects = {
  readonly list: (query: KubeListQuery) => Promise<unknown>;
  readonly get: (name: string) => Promise<unknown>;
  readonly create: (body: object) => Promise<unknown>;
  readonly replace: (name: string, body: object) => Promise<unknown>;
  readonly apply: (name: string, body: object, as: Applied) => Promise<unknown>;
  readonly applyStatus: (name: string, body: object, as: Applied) => Promise<unknown>;
  readonly merge: (name: string, body: object) => Promise<unknown>;
};

export type KubePlace = {
  readonly resource: KubeResource;
  /** Absent: all namespaces, or a kind without namespaces. */
  readonly namespace?: string | undefined;
};

/** Sends a request built by the library. @returns the body of an answer with a status below 400. @throws KubeError */
type Send = (request: RequestContext) => Promise<string>;

const SERVER_SIDE_APPLY = setHeaderOptions('Content-Type', PatchStrategy.ServerSideApply);
const MERGE = setHeaderOptions('Content-Type', PatchStrategy.MergePatch);
const STRICT = { fieldValidation: 'Strict' };

/**
 * Wraps the library's client for custom objects, which passes raw JSON of any kind through: its typed clients would drop
 * fields of a lease that they do not know (ADR 22).
 */
export function kubeObjects(
  { resource, namespace }: KubePlace,
  connection: KubeConnection,
  send: Send,
): KubeObjects {
  const api = customObjectsApi(connection, send);
  const { group, version, plural } = resource;
  const kind = { group, version, plural };
  if (namespace === undefined || !resource.namespaced)
    return {
      list: (query) => api.listClusterCustomObject({ ...kind, ...given(query) }),
      get: (name) => api.getClusterCustomObject({ ...kind, name }),
      create: (body) => api.createClusterCustomObject({ ...kind, body, ...STRICT }),
      replace: (name, body) => api.replaceClusterCustomObject({ ...kind, name, body, ...STRICT }),
      apply: (name, body, as) =>
        api.patchClusterCustomObject({ ...kind, name, body, ...as, ...STRICT }, SERVER_SIDE_APPLY),
      applyStatus: (name, body, as) =>
        api.patchClusterCustomObjectStatus({ ...kind, name, body, ...as }, SERVER_SIDE_APPLY),
      merge: (name, body) => api.patchClusterCustomObject({ ...kind, name, body }, MERGE),
    };
  const here = { ...kind, namespace };
  return {
    list: (query) => api.listNamespacedCustomObject({ ...here, ...given(query) }),
    get: (name) => api.getNamespacedCustomObject({ ...here, name }),
    create: (body) => api.createNamespacedCustomObject({ ...here, body, ...STRICT }),
    replace: (name, body) => api.replaceNamespacedCustomObject({ ...here, name, body, ...STRICT }),
    apply: (name, body, as) =>
      api.patchNamespacedCustomObject({ ...here, name, body, ...as, ...STRICT }, SERVER_SIDE_APPLY),
    applyStatus: (name, body, as) =>
      api.patchNamespacedCustomObjectStatus({ ...here, name, body, ...as }, SERVER_SIDE_APPLY),
    merge: (name, body) => api.patchNamespacedCustomObject({ ...here, name, body }, MERGE),
  };
}

function customObjectsApi({ server, headers }: KubeConnection, send: Send): CustomObjectsApi {
  return new CustomObjectsApi(
    createConfiguration({
      baseServer: { makeRequestContext: (path, method) => requestTo(server, path, method) },
      authMethods: {
        default: {
          getName: () => 'credentials',
          applySecurityAuthentication(request) {
            for (const [name, value] of Object.entries(headers)) request.setHeaderParam(name, value);
          },
        },
      },
      httpApi: wrapHttpLibrary({ send: async (request) => answered(await send(request)) }),
    }),
  );
}

function requestTo(server: string, path: string, method: HttpMethod): RequestContext {
  // The core group has a different root path, which the client for custom objects does not support.
  const rooted = path.replace(/^\/apis\/\//, '/api/');
  // The library escapes names, but a URL parser treats `.` and `..` as path segments: a name must not lead to another path.
  if (
    rooted
      .split('/')
      .slice(1)
      .some((segment) => segment === '' || segment === '.' || segment === '..')
  )
    throw new RangeError('A path segment must be a name');
  return new RequestContext(server + rooted, method);
}

/** Always reports JSON, whatever the answer's content type: the library would return a proxy's text page as an object. */
function answered(text: string): ResponseContext {
  const body = { text: async () => text, binary: async () => Buffer.from(text), stream: () => null };
  return new ResponseContext(200, { 'content-type': 'application/json' }, body);
}

/** Removes undefined values, which the library's types do not allow. */
function given<T extends object>(query: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined)) as never;
}
