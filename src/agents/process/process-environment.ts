import { isUnsafeVariable } from '../../lib/unsafe-variables.ts';
import { BackendError } from '../backends/backend.ts';

/** Which variables a child process gets, from where. */
type EnvironmentParts = {
  /** Variables of this program. */
  readonly from: Readonly<Record<string, string | undefined>>;
  /** Names to hand on besides the ordinary ones. */
  readonly pass?: readonly string[];
  /** Variables set for this child; they go before those handed on. */
  readonly set?: Readonly<Record<string, string>>;
};

/**
 * The environment of a child process: of this program's variables only those on the list of ordinary ones and those to pass,
 * so that no secret of the bot reaches an agent. Variables that change how programs are loaded or how Git runs are refused
 * with a terminal `BackendError`.
 */
export function childEnvironment(parts: EnvironmentParts): Record<string, string> {
  const set = parts.set ?? {};
  const refused = [...Object.keys(set), ...(parts.pass ?? [])].filter(isUnsafeVariable);
  if (refused.length > 0) {
    throw new BackendError(`the environment of an agent may not hold ${refused.join(', ')}`, { terminal: true });
  }
  const passed = new Set(parts.pass);
  const inherited = Object.entries(parts.from).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && (ORDINARY.test(entry[0]) || passed.has(entry[0])),
  );
  return { ...Object.fromEntries(inherited), ...set };
}

/** Values of an environment that must not be shown: those whose names say so, and passwords in addresses. */
export function secretsOf(environment: Readonly<Record<string, string>>): readonly string[] {
  const secret = Object.entries(environment).filter(([name, value]) => SECRET.test(name) && value.length >= SHORTEST);
  const passwords = Object.values(environment).flatMap((value) => PASSWORD.exec(value)?.[1] ?? []);
  return [...secret.map(([, value]) => value), ...passwords];
}

const ORDINARY =
  /^(?:PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_\w+|TERM|COLORTERM|TMPDIR|TMP|TEMP|TZ|XDG_\w+|(?:HTTPS?|NO|ALL)_PROXY|SSL_CERT_(?:FILE|DIR)|NODE_EXTRA_CA_CERTS|SYSTEMROOT|APPDATA|LOCALAPPDATA|USERPROFILE|PATHEXT|COMSPEC)$/i;
const SECRET = /KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL/i;
const PASSWORD = /^\w+:\/\/[^/@\s]*?:([^/\s]+)@/;
const SHORTEST = 6;
