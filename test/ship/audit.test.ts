import { describe, expect, test } from 'vitest';
import { judged } from '../../ship/audit.ts';

/** A report of `npm audit --json` with these vulnerabilities. */
function report(vulnerabilities: Readonly<Record<string, string>>): string {
  const rows = Object.entries(vulnerabilities).map(([name, severity]) => [
    name,
    {
      name,
      severity,
      isDirect: false,
      via: [],
      effects: [],
      range: '<2.0.1',
      nodes: [`node_modules/${name}`],
      fixAvailable: true,
    },
  ]);
  return JSON.stringify({
    auditReportVersion: 2,
    vulnerabilities: Object.fromEntries(rows),
    metadata: { dependencies: { prod: 9 } },
  });
}

/** The output of npm when a registry accepts no audits. */
const NOT_ALLOWED = JSON.stringify({
  message: '405 Method Not Allowed - POST https://registry.example/-/npm/v1/security/advisories/bulk',
  method: 'POST',
  uri: 'https://registry.example/-/npm/v1/security/advisories/bulk',
  headers: { allow: ['GET,HEAD'] },
  statusCode: 405,
  body: '',
  error: { summary: '', detail: '' },
});

describe('an audit', () => {
  test('is clean for packages without a known vulnerability', () => {
    expect(judged(report({}), 'low')).toEqual({
      outcome: 'clean',
      text: 'No known vulnerability of level low or above.',
    });
  });

  test('fails for a vulnerability of the given level, which it names', () => {
    const { outcome, text } = judged(report({ ws: 'high', qs: 'low' }), 'high');
    expect(outcome).toBe('vulnerable');
    expect(text.split('\n')).toEqual([
      'high: ws <2.0.1 in node_modules/ws',
      'Update these packages. npm audit --omit=dev says how.',
    ]);
  });

  test('fails for a graver vulnerability, and counts those below the level', () => {
    expect(judged(report({ ws: 'critical' }), 'high').outcome).toBe('vulnerable');
    expect(judged(report({ ws: 'moderate' }), 'high')).toEqual({
      outcome: 'clean',
      text: 'No known vulnerability of level high or above (1 below high).',
    });
  });

  test.each([
    ['a registry without audits', NOT_ALLOWED, 'No audit possible: 405 Method Not Allowed - POST the registry'],
    [
      'a registry that does not answer',
      JSON.stringify({
        message: 'request to https://registry.example/x failed, reason: connect ECONNREFUSED',
        error: { summary: '', detail: '' },
      }),
      'No audit possible: request to the registry failed, reason: connect ECONNREFUSED',
    ],
    [
      'a folder without a lock file',
      JSON.stringify({
        error: { code: 'ENOLOCK', summary: 'This command requires an existing lockfile.', detail: 'Try' },
      }),
      'No audit possible: This command requires an existing lockfile.',
    ],
  ])('is impossible for %s, with one line without addresses', (_which, output, text) => {
    expect(judged(output, 'low')).toEqual({ outcome: 'impossible', text });
  });

  test.each(['', 'npm crashed', '{}', '{"auditReportVersion":3,"vulnerabilities":{}}'])(
    'throws for the output "%s"',
    (output) => {
      expect(() => judged(output, 'low')).toThrow('npm audit gave no report');
    },
  );
});
