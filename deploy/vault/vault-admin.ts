export type VaultAnswer = { readonly status: number; readonly body: unknown };

/** Calls a Vault with a token that may mount engines and write policies. */
export type VaultAdmin = {
  /** Makes one call below `/v1/`. */
  readonly call: (method: string, path: string, body?: unknown) => Promise<VaultAnswer>;
  /** Like `call`, but returns the answer's body. @throws when Vault refuses. */
  readonly done: (method: string, path: string, body?: unknown) => Promise<unknown>;
  /** Mounts an engine or auth method unless something is mounted at this path. @throws when Vault refuses. */
  readonly mount: (path: string, type: string) => Promise<void>;
};

export type VaultAccess = {
  readonly address: string;
  /** A token that may mount engines and write policies. */
  readonly rootToken: string;
  /** Only for Vault Enterprise. */
  readonly namespace?: string | undefined;
};

export function createVaultAdmin({ address, rootToken, namespace }: VaultAccess): VaultAdmin {
  const call: VaultAdmin['call'] = async (method, path, body) => {
    const response = await fetch(`${address}/v1/${path}`, {
      method,
      headers: {
        'x-vault-token': rootToken,
        ...(namespace === undefined ? {} : { 'x-vault-namespace': namespace }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(20_000),
    });
    const text = await response.text();
    return { status: response.status, body: text === '' ? null : (JSON.parse(text) as unknown) };
  };
  const accepted = (path: string, { status, body }: VaultAnswer): unknown => {
    if (status >= 300) throw new Error(`Vault answered ${path} with ${status}: ${JSON.stringify(body)}`);
    return body;
  };
  return {
    call,
    done: async (method, path, body) => accepted(path, await call(method, path, body)),
    async mount(path, type) {
      const answer = await call('POST', path, { type });
      // 400 means that the path is in use, as on every run after the first.
      if (answer.status !== 400) accepted(path, answer);
    },
  };
}
