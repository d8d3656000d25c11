/** True for variables that change how programs are loaded or how git runs. Agents and git do not inherit them. */
export function isUnsafeVariable(name: string): boolean {
  return UNSAFE.test(name);
}

const UNSAFE = /^(?:GIT_|LD_|DYLD_|NODE_OPTIONS$|NODE_PATH$|BASH_ENV$|ENV$|PYTHONSTARTUP$)/i;
