export const NATS_SERVICES = ['api', 'worker', 'controller'] as const;
export type NatsService = (typeof NATS_SERVICES)[number];

export type UserPermissions = {
  readonly user: string;
  /** Variable of the NATS server that contains the password. */
  readonly passwordVariable: string;
  readonly publish: readonly string[];
  readonly subscribe: readonly string[];
};

/**
 * Returns what each service may publish and subscribe to, for a `NATS_PREFIX`. A user cannot read another user's replies;
 * only the api publishes wake-ups and only the worker consumes them; no user has access to a stream other than the
 * wake-ups'. `permissions.conf` is the same for the default prefix, with the reasons.
 */
export function natsPermissions(prefix = 'despatch'): Record<NatsService, UserPermissions> {
  const capitals = prefix.toUpperCase();
  const [stream, durable] = [`${capitals}_WAKE`, `${capitals}_DELIVERY`];
  const user = (service: NatsService): Pick<UserPermissions, 'user' | 'passwordVariable'> => ({
    user: `${prefix}_${service}`,
    passwordVariable: `${capitals.replaceAll('-', '_')}_NATS_${service.toUpperCase()}_PASSWORD`,
  });
  return {
    api: {
      ...user('api'),
      publish: [`${prefix}.wake.*`, `${prefix}.notice.*`],
      subscribe: [`_INBOX_${prefix}_api.>`, `${prefix}.notice.*`],
    },
    worker: {
      ...user('worker'),
      publish: [
        ...['INFO', 'CREATE', 'UPDATE', 'DELETE'].map((verb) => `$JS.API.STREAM.${verb}.${stream}`),
        ...['INFO', 'CREATE', 'DURABLE.CREATE', 'MSG.NEXT'].map(
          (verb) => `$JS.API.CONSUMER.${verb}.${stream}.${durable}`,
        ),
      ],
      subscribe: [`_INBOX_${prefix}_worker.>`, `${prefix}.notice.*`],
    },
    controller: {
      ...user('controller'),
      publish: [`${prefix}.notice.*`],
      subscribe: [`_INBOX_${prefix}_controller.>`],
    },
  };
}

/**
 * Returns one account per prefix in the format of a NATS server's configuration. `password` formats a reference to a
 * variable.
 */
export function natsAccounts(prefix: string, password: (variable: string) => string): Record<string, object> {
  const permissions = natsPermissions(prefix);
  return {
    [prefix.toUpperCase()]: {
      jetstream: 'enabled',
      users: NATS_SERVICES.map((service) => {
        const { user, passwordVariable, publish, subscribe } = permissions[service];
        return {
          user,
          password: password(passwordVariable),
          permissions: { publish: { allow: publish }, subscribe: { allow: subscribe } },
        };
      }),
    },
  };
}
