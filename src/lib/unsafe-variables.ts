/** Whether an environment variable of this name changes how programs are loaded or how Git runs: no child process is given it. */
export function isUnsafeVariable(name: string): boolean {
  return UNSAFE.test(name);
}

const UNSAFE = /^(?:GIT_|LD_|DYLD_|NODE_OPTIONS$|NODE_PATH$|BASH_ENV$|ENV$|PYTHONSTARTUP$)/i;
