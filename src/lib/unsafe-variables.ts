/** True for known variables that change how programs are loaded or how git runs. */
export function isUnsafeVariable(name: string): boolean {
  return UNSAFE.test(name);
}

const UNSAFE = /^(?:GIT_|LD_|DYLD_|NODE_OPTIONS$|NODE_PATH$|BASH_ENV$|ENV$|PYTHONSTARTUP$)/i;

/** True when the name of a variable, field or option says that it holds a secret. */
export function isSecretName(name: string): boolean {
  return /TOKEN|KEY|SECRET|PASSW(?:OR)?D|PASSPHRASE|CREDENTIAL|(?:^|_)(?:PASS|AUTH)$|_PWD$/i.test(name);
}

/** Returns the password in a variable's address, such as `https://ann:password@proxy`; `null` without one. */
export function passwordIn(value: string): string | null {
  return /^[\w+.-]+:\/\/[^\s/:@]*:([^\s/]+)@/.exec(value)?.[1] ?? null;
}
