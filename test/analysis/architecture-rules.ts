import { builtinModules } from 'node:module';
import { basename, dirname } from 'node:path/posix';
import { moduleFacts, type ModuleFacts, type ModuleImport, type SourceFile } from './module-facts.ts';

export type Violation = { readonly rule: string; readonly path: string; readonly detail: string };

type Module = ModuleFacts & { readonly room: Room };
type Rule = (modules: readonly Module[], paths: readonly string[]) => Finding[];
type Finding = { readonly path: string; readonly detail: string };

/** Returns every violation of the rules in `services/ARCHITECTURE.md`. `files` are all TypeScript files, `paths` all files. */
export function findViolations(files: readonly SourceFile[], paths: readonly string[]): Violation[] {
  const modules = files.map((file) => ({ ...moduleFacts(file), room: roomOf(file.path) }));
  return Object.entries(RULES).flatMap(([rule, find]) =>
    find(modules, paths).map(({ path, detail }) => ({ rule, path, detail })),
  );
}

/** Returns entries of the project's root that are visible and not on the list. */
export function strayTopLevelEntries(entries: readonly string[]): string[] {
  return entries.filter((name) => !name.startsWith('.') && !TOP_LEVEL.has(name));
}

const TOP_LEVEL = new Set([
  'README.md',
  'LICENSE',
  'package.json',
  'package-lock.json',
  'tsconfig.json',
  'Tiltfile',
  'charts',
  'crds',
  'deploy',
  'node_modules',
  'coverage',
  'services',
  'test',
]);

// Rooms ------------------------------------------------------------------------------------------------------------

const DEPLOYMENTS = ['api', 'worker', 'controller', 'migrate'] as const;
type Deployment = (typeof DEPLOYMENTS)[number];

/** The room of a file. `test` is every file that never runs in production, wherever it is; `stray` is a file without a room. */
type Room =
  | 'domain'
  | 'store'
  | 'platform'
  | 'contract'
  | 'provider'
  | Deployment
  | 'script'
  | 'test'
  | 'deploy'
  | 'stray';

const ROOM_FOLDERS: readonly (readonly [pattern: RegExp, room: Room])[] = [
  [/^deploy\//, 'deploy'],
  [/^test\//, 'test'],
  [/\.test\.ts$|\/stand-in(-[a-z-]+)?\.ts$/, 'test'],
  [/^services\/core\/domain\//, 'domain'],
  [/^services\/core\/store\//, 'store'],
  [/^services\/core\/platform\//, 'platform'],
  [/^services\/(?:[^/]+|[^/]+(?:\/openapi)?\/generate(?:-[a-z-]+)?)\.ts$/, 'script'],
  [/^services\/providers\/[^/]+\.ts$/, 'contract'],
  [/^services\/providers\/[^/]+\//, 'provider'],
  [/^services\/api\//, 'api'],
  [/^services\/worker\//, 'worker'],
  [/^services\/controller\//, 'controller'],
  [/^services\/migrate\//, 'migrate'],
];

function roomOf(path: string): Room {
  return ROOM_FOLDERS.find(([pattern]) => pattern.test(path))?.[1] ?? 'stray';
}

const isProduction = ({ room }: Module): boolean => room !== 'test' && room !== 'deploy' && room !== 'script';
const isDeployment = (room: Room): room is Deployment => (DEPLOYMENTS as readonly string[]).includes(room);
const isMain = (path: string): boolean => /^services\/[a-z]+\/main\.ts$/.test(path);

const CORE: readonly Room[] = ['domain', 'store', 'platform'];
const DEPLOYMENT_IMPORTS = (self: Deployment): readonly Room[] => [...CORE, 'contract', self];

const MAY_IMPORT: Partial<Record<Room, readonly Room[]>> = {
  domain: ['domain'],
  store: ['domain', 'store', 'platform'],
  platform: ['domain', 'platform'],
  contract: ['domain', 'contract', 'provider'],
  provider: ['domain', 'contract', 'provider'],
  api: DEPLOYMENT_IMPORTS('api'),
  worker: DEPLOYMENT_IMPORTS('worker'),
  controller: DEPLOYMENT_IMPORTS('controller'),
  migrate: [...CORE, 'migrate'],
};

// Vendors ----------------------------------------------------------------------------------------------------------

/** The files that may import a package or a scope; production code imports no other package. */
const VENDORS: Readonly<Record<string, RegExp>> = {
  postgres: /^services\/core\/platform\/postgres\/postgres(-driver)?\.ts$/,
  '@nats-io/*': /^services\/core\/platform\/nats\//,
  'node-vault': /^services\/core\/platform\/vault\/vault-[a-z]+\.ts$/,
  '@kubernetes/client-node': /^services\/controller\/kube\//,
  'prom-client': /^services\/(core\/platform\/telemetry|controller\/metrics)\/([a-z]+-)?metrics\.ts$/,
  semver: /^services\/migrate\//,
  pino: /^services\/core\/platform\/telemetry\/logger\.ts$/,
  '@opentelemetry/*': /^services\/core\/platform\/telemetry\/telemetry\.ts$/,
  // The Kubernetes client creates dispatchers for each call, so its credentials file creates them itself. The Vault client sends its
  // requests to the environment's proxies, so a file of its folder sends them.
  undici:
    /^services\/(core\/platform\/(http\/(http-client|agents)|vault\/vault-requests)|controller\/kube\/kube-credentials)\.ts$/,
  'ipaddr.js': /^services\/core\/platform\/http\/egress-guard\.ts$/,
  fastify: /^services\/api\//,
  '@fastify/*': /^services\/api\//,
  'fastify-type-provider-zod': /^services\/api\//,
  '@scalar/fastify-api-reference': /^services\/api\/docs\//,
  jose: /^services\/(api|providers)\//,
  nodemailer: /^services\/providers\//,
  'libphonenumber-js': /^services\/(core\/domain|api)\//,
  'email-addresses': /^services\/(core\/domain|api|providers)\//,
  'fastest-levenshtein': /^services\/core\/domain\//,
  'lru-cache': /^services\//,
  nanoid: /^services\/api\/http\//,
  zod: /^services\//,
};

const PURE_BUILTINS = new Set(['node:buffer', 'node:crypto', 'node:util', 'node:zlib', 'node:url']);
/** A provider receives its connections, so that deadline, size limit and address guard apply to all of them. */
const CONNECTING_BUILTINS =
  /^node:(http|https|http2|tls|dgram|dns|fs|child_process|worker_threads|module)(\/|$)/;

// Rules ------------------------------------------------------------------------------------------------------------

const RULES: Readonly<Record<string, Rule>> = {
  'every file has a room': (modules) =>
    modules
      .filter(({ room }) => room === 'stray')
      .map(({ path }) => ({ path, detail: 'lies in no folder of the map' })),

  'a room imports only the rooms below it': eachImport((module, { target }) => {
    const allowed = MAY_IMPORT[module.room];
    const room = roomOf(target);
    // Another rule covers test code in a production file.
    if (allowed === undefined || room === 'test' || room === 'deploy' || allowed.includes(room))
      return undefined;
    return `${module.room} imports ${room}: ${target}`;
  }),

  'store knows Postgres and no other vendor': eachImport(({ room }, { target }) =>
    room === 'store' && roomOf(target) === 'platform' && basename(target) !== 'postgres.ts'
      ? target
      : undefined,
  ),

  'a provider is an island': eachImport((module, { target }) => {
    if (module.room === 'provider') {
      if (/^services\/providers\/registry(\.gen)?\.ts$/.test(target)) return `imports the registry`;
      const isForeign =
        roomOf(target) === 'provider' && providerFolder(target) !== providerFolder(module.path);
      return isForeign ? `imports another provider: ${target}` : undefined;
    }
    // Other rooms use the registry, which is generated.
    const isInner = roomOf(target) === 'provider' && isProduction(module);
    const isRegistry =
      module.path === 'services/providers/registry.gen.ts' && basename(target) === 'provider.ts';
    return isInner && !isRegistry ? `reaches into a provider: ${target}` : undefined;
  }),

  'production never imports test code': eachImport((module, { target }) => {
    const room = roomOf(target);
    return isProduction(module) && (room === 'test' || room === 'deploy') ? target : undefined;
  }),

  'connections are opened in main.ts': eachImport(({ path, room }, { target, names, isTypeOnly }) => {
    const isSpared = isMain(path) || room === 'migrate' || !isDeployment(room);
    if (isSpared || isTypeOnly || roomOf(target) !== 'platform') return undefined;
    const opener = names.find((name) => /^open[A-Z]/.test(name));
    return opener === undefined ? undefined : `${opener} of ${target}`;
  }),

  'a vendor is imported where its adapter is': eachPackage((module, name) => {
    if (!isProduction(module)) return undefined;
    const home = VENDORS[name] ?? VENDORS[name.replace(/\/.*/, '/*')];
    if (home === undefined) return `${name} is not among the vendors that production uses`;
    return home.test(module.path) ? undefined : name;
  }),

  'the domain does no I/O': eachBuiltin((module, name) =>
    module.room === 'domain' && !PURE_BUILTINS.has(name) ? name : undefined,
  ),

  'a provider is given its connections': eachBuiltin((module, name, { isTypeOnly }) =>
    module.room === 'provider' && !isTypeOnly && CONNECTING_BUILTINS.test(name) ? name : undefined,
  ),

  'a builtin is named with its prefix': (modules) =>
    modules.flatMap(({ path, imports }) =>
      imports
        .filter(({ target }) => builtinModules.includes(target))
        .map(({ target }) => ({ path, detail: target })),
    ),

  'process.env is read in main.ts': (modules) =>
    modules
      .filter((module) => isProduction(module) && !isMain(module.path) && usesProcess(module, 'env'))
      .map(({ path }) => ({ path, detail: 'process.env' })),

  // A process that lost its lease must exit at once, because an orderly shutdown would make further writes.
  'process.exit is for a leader that lost its lease': (modules) =>
    modules
      .filter(
        (module) =>
          isProduction(module) &&
          usesProcess(module, 'exit') &&
          module.path !== 'services/controller/runtime/exit-now.ts',
      )
      .map(({ path }) => ({ path, detail: 'process.exit' })),

  'what production imports can be read': (modules) =>
    modules
      .filter((module) => isProduction(module) && module.hasComputedImport)
      .map(({ path }) => ({ path, detail: 'import() of an expression' })),

  'no barrels': (modules) =>
    modules
      .filter(
        ({ path, hasReexport }) =>
          path.startsWith('services/') && (hasReexport || basename(path) === 'index.ts'),
      )
      .map(({ path }) => ({ path, detail: 're-exports' })),

  'default exports are for providers': (modules) =>
    modules
      .filter(
        ({ path, hasDefaultExport }) =>
          path.startsWith('services/') && hasDefaultExport && !isProviderEntry(path),
      )
      .map(({ path }) => ({ path, detail: 'default export' })),

  'no import cycles': (modules) => cycles(modules),

  'every import finds its file': (modules, paths) => {
    const known = new Set(paths);
    return modules.flatMap(({ path, imports }) =>
      imports
        .filter(({ isOwn, target }) => isOwn && !known.has(target))
        .map(({ target }) => ({ path, detail: target })),
    );
  },

  'a provider folder is complete': (_modules, paths) => {
    const folders = new Set(paths.flatMap((path) => providerFolder(path) ?? []));
    const known = new Set(paths);
    return [...folders].flatMap((folder) => {
      // The simulator makes no calls, so it needs no stand-in.
      const wanted = [
        'provider.ts',
        'provider.test.ts',
        ...(folder.endsWith('/simulator') ? [] : ['stand-in.ts']),
      ];
      return wanted
        .filter((name) => !known.has(`${folder}/${name}`))
        .map((name) => ({ path: folder, detail: `lacks ${name}` }));
    });
  },

  'files have speaking kebab-case names': (modules) =>
    modules
      .filter(({ path }) => !/^[a-z0-9]+(-[a-z0-9]+)*(\.(gen|test|config))?\.ts$/.test(basename(path)))
      .map(({ path }) => ({ path, detail: basename(path) })),

  'folders are named after what they hold': (_modules, paths) =>
    paths
      .filter((path) => /(^|\/)(common|shared|utils?|helpers?|misc|lib)\//.test(path))
      .map((path) => ({ path, detail: dirname(path) })),
};

/** The names of all rules, so that a test can show that each one detects a violation. */
export const RULE_NAMES: readonly string[] = Object.keys(RULES);

function eachImport(find: (module: Module, one: ModuleImport) => string | undefined): Rule {
  return eachOf(({ isOwn }) => isOwn, find);
}

function eachPackage(find: (module: Module, name: string) => string | undefined): Rule {
  return eachOf(
    ({ isOwn, target }) => !isOwn && !target.startsWith('node:') && !builtinModules.includes(target),
    (module, { target }) => find(module, target),
  );
}

function eachBuiltin(find: (module: Module, name: string, one: ModuleImport) => string | undefined): Rule {
  return eachOf(
    ({ target }) => target.startsWith('node:'),
    (module, one) => find(module, one.target, one),
  );
}

function eachOf(
  isMeant: (one: ModuleImport) => boolean,
  find: (module: Module, one: ModuleImport) => string | undefined,
): Rule {
  return (modules) =>
    modules.flatMap((module) =>
      module.imports.filter(isMeant).flatMap((one) => {
        const detail = find(module, one);
        return detail === undefined ? [] : [{ path: module.path, detail }];
      }),
    );
}

function usesProcess({ processMembers }: Module, member: string): boolean {
  return processMembers.has(member) || processMembers.has('*');
}

function providerFolder(path: string): string | undefined {
  return /^services\/providers\/[^/]+(?=\/)/.exec(path)?.[0];
}

function isProviderEntry(path: string): boolean {
  return /^services\/providers\/[^/]+\/provider\.ts$/.test(path);
}

/** Returns one finding per cycle of modules that load each other; type imports do not count, because they are erased. */
function cycles(modules: readonly Module[]): Finding[] {
  const loads = new Map(
    modules.map(({ path, imports }) => [
      path,
      imports.filter(({ isOwn, isTypeOnly }) => isOwn && !isTypeOnly).map(({ target }) => target),
    ]),
  );
  const done = new Set<string>();
  const trail: string[] = [];
  const findings: Finding[] = [];
  const visit = (path: string): void => {
    const start = trail.indexOf(path);
    if (start !== -1) {
      findings.push({ path, detail: [...trail.slice(start), path].join(' > ') });
      return;
    }
    if (done.has(path)) return;
    trail.push(path);
    for (const target of loads.get(path) ?? []) visit(target);
    trail.pop();
    done.add(path);
  };
  for (const path of loads.keys()) visit(path);
  return findings;
}
