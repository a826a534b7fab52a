import { dirname, join, normalize } from 'node:path/posix';
import { parseSync, Visitor } from 'oxc-parser';

/** A file with its path from the project's root. */
export type SourceFile = { readonly path: string; readonly text: string };

export type ModuleImport = {
  /** A path in the project, or else the name of the package or builtin (`node:fs`). */
  readonly target: string;
  readonly isOwn: boolean;
  /** The import is erased at run time. */
  readonly isTypeOnly: boolean;
  /** Imported names; `*` for a namespace, none for a bare or dynamic import. */
  readonly names: readonly string[];
};

/** The facts about a file that the rules use. */
export type ModuleFacts = {
  readonly path: string;
  readonly imports: readonly ModuleImport[];
  /** It contains an `import(…)` of an expression that is not a literal, whose target is unknown. */
  readonly hasComputedImport: boolean;
  readonly hasReexport: boolean;
  readonly hasDefaultExport: boolean;
  /** Members of `process` that it uses, such as `env`. */
  readonly processMembers: ReadonlySet<string>;
};

/** Returns the facts about a file. @throws when the file does not parse. */
export function moduleFacts({ path, text }: SourceFile): ModuleFacts {
  const { program, errors } = parseSync(path, text);
  if (errors.length > 0) throw new Error(`${path}: ${errors[0]?.message}`);
  const imports: ModuleImport[] = [];
  const processMembers = new Set<string>();
  let hasComputedImport = false;
  let hasReexport = false;
  let hasDefaultExport = false;
  const add = (specifier: string, isTypeOnly: boolean, names: readonly string[] = []): void => {
    imports.push({ ...resolveSpecifier(path, specifier), isTypeOnly, names });
  };
  new Visitor({
    ImportDeclaration(node) {
      const names = node.specifiers.map((one) => {
        if (one.type === 'ImportNamespaceSpecifier') return '*';
        if (one.type === 'ImportDefaultSpecifier') return 'default';
        return one.imported.type === 'Identifier' ? one.imported.name : one.imported.value;
      });
      const isTypeOnly =
        node.importKind === 'type' ||
        (names.length > 0 &&
          node.specifiers.every((one) => one.type === 'ImportSpecifier' && one.importKind === 'type'));
      if (node.source.value === 'process' || node.source.value === 'node:process') {
        for (const name of names) processMembers.add(name === 'default' ? '*' : name);
      }
      add(node.source.value, isTypeOnly, names);
    },
    ImportExpression(node) {
      if (node.source.type === 'Literal' && typeof node.source.value === 'string') {
        add(node.source.value, false);
      } else {
        hasComputedImport = true;
      }
    },
    TSImportType(node) {
      add(node.source.value, true);
    },
    ExportAllDeclaration(node) {
      hasReexport = true;
      add(node.source.value, node.exportKind === 'type');
    },
    ExportNamedDeclaration(node) {
      if (node.source === null) return;
      hasReexport = true;
      add(node.source.value, node.exportKind === 'type');
    },
    ExportDefaultDeclaration() {
      hasDefaultExport = true;
    },
    MemberExpression(node) {
      if (node.object.type !== 'Identifier' || node.object.name !== 'process') return;
      if (!node.computed) processMembers.add(node.property.name);
      else if (node.property.type === 'Literal') processMembers.add(String(node.property.value));
    },
    VariableDeclarator(node) {
      if (node.init?.type !== 'Identifier' || node.init.name !== 'process') return;
      if (node.id.type !== 'ObjectPattern') return;
      for (const property of node.id.properties) {
        if (property.type === 'Property' && property.key.type === 'Identifier')
          processMembers.add(property.key.name);
      }
    },
  }).visit(program);
  return { path, imports, hasComputedImport, hasReexport, hasDefaultExport, processMembers };
}

const ALIASES: readonly (readonly [prefix: string, folder: string])[] = [
  ['#core/', 'services/core/'],
  ['#providers/', 'services/providers/'],
  ['#test/', 'test/'],
];

function resolveSpecifier(from: string, specifier: string): { target: string; isOwn: boolean } {
  if (specifier.startsWith('.')) return { target: normalize(join(dirname(from), specifier)), isOwn: true };
  for (const [prefix, folder] of ALIASES) {
    if (specifier.startsWith(prefix)) {
      return { target: normalize(folder + specifier.slice(prefix.length)), isOwn: true };
    }
  }
  if (specifier.startsWith('node:')) return { target: specifier, isOwn: false };
  const parts = specifier.split('/');
  return { target: parts.slice(0, specifier.startsWith('@') ? 2 : 1).join('/'), isOwn: false };
}
