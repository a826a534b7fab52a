import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parse, stringify } from 'yaml';

export type RuleGroups = {
  readonly groups: readonly {
    readonly name: string;
    readonly rules: readonly { readonly alert?: string }[];
  }[];
};

/** A file of promtool's rule tests. */
export type RuleTests = {
  rule_files: string[];
  tests: {
    alert_rule_test?: {
      readonly alertname: string;
      exp_alerts?: { readonly exp_labels: { readonly namespace?: string } }[];
    }[];
  }[];
};

/** Reads a file of rule tests, and the rules that it names. */
export function readRuleTests(path: string): { readonly tests: RuleTests; readonly rules: RuleGroups } {
  const tests = parse(readFileSync(path, 'utf8')) as RuleTests;
  const files = tests.rule_files.map((file) => join(dirname(path), file));
  const groups = files.flatMap((file) => (parse(readFileSync(file, 'utf8')) as RuleGroups).groups);
  return { tests, rules: { groups } };
}

/**
 * Writes each test to a file of its own, with the recording rules and the alerts that the test names: promtool evaluates all rules
 * of a file for each minute of each test, which takes minutes for a day with a hundred alerts.
 * @returns the files with tests.
 */
export function writeRuleTests(folder: string, { tests, ...shared }: RuleTests, rules: RuleGroups): string[] {
  return tests.map((one, i) => {
    const named = new Set(one.alert_rule_test?.map(({ alertname }) => alertname));
    const groups = rules.groups.map((group) => ({
      ...group,
      rules: group.rules.filter(({ alert }) => alert === undefined || named.has(alert)),
    }));
    writeFileSync(join(folder, `rules-${i}.yaml`), stringify({ groups }));
    const path = join(folder, `tests-${i}.yaml`);
    writeFileSync(path, stringify({ ...shared, rule_files: [`rules-${i}.yaml`], tests: [one] }));
    return path;
  });
}
