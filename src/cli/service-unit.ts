import { RESTART_CANNOT_HELP } from '../runtime/exit-codes.ts';

/** The settings from which a unit of systemd is made. All paths are absolute. */
export type UnitPlan = {
  /** The unit belongs to the machine, or to one user. */
  readonly scope: 'system' | 'user';
  readonly command: readonly string[];
  /** The working folder of Conch. */
  readonly folder: string;
  readonly dataDir: string;
  /** The user of a unit of the machine; `null`: a user that systemd makes for it. */
  readonly runAs: string | null;
  /** Folders that Conch and its agents may write to, besides the data folder. */
  readonly writable: readonly string[];
  /** Leaves out the protections under which bubblewrap cannot start. */
  readonly allowsSandbox: boolean;
};

/** The data folder of a unit of the machine. systemd makes it for the unit's user. */
export const SYSTEM_DATA_DIR = '/var/lib/conch';

/** The home of the user that systemd makes, for the settings of coding agents. */
const SYSTEM_HOME = '/var/lib/conch-home';

/**
 * Times of a unit, in seconds: limits for the watchdog, a start and a stop, and the pause before a restart. A start may
 * bring a large database up to date.
 */
const SECONDS = { watchdog: 30, start: 600, stop: 30, restart: 10 };

/** The longest run of systemctl, in milliseconds: a restart waits for the stop and the start of the unit. */
export const SYSTEMCTL_LIMIT_MS = (SECONDS.stop + SECONDS.start + 30) * 1_000;

/** Returns the text of the unit file for systemd. */
export function unitText(plan: UnitPlan): string {
  const isSystem = plan.scope === 'system';
  return [
    '# Written by "conch service install", which replaces this file. Put changes into conch.service.d/*.conf.',
    section('Unit', [
      'Description=Conch: AI agents and people share a chat channel',
      // Units of a user know no targets of the machine.
      ...(isSystem ? ['Wants=network-online.target', 'After=network-online.target'] : []),
      'StartLimitIntervalSec=0',
    ]),
    section('Service', [
      ...program(plan),
      ...(isSystem ? ownUser(plan) : ['PrivateUsers=yes']),
      ...PROTECTIONS,
      ...(isSystem ? SYSTEM_PROTECTIONS : []),
      ...(plan.allowsSandbox ? WITH_SANDBOX : WITHOUT_SANDBOX),
      ...(isSystem && !plan.allowsSandbox ? SYSTEM_WITHOUT_SANDBOX : []),
      ...writablePaths(plan),
    ]),
    section('Install', [`WantedBy=${isSystem ? 'multi-user' : 'default'}.target`]),
  ].join('\n\n');
}

/** Returns the line of a unit that names the program. Units with the same line belong to the same installation. */
export function commandLine({ command }: Pick<UnitPlan, 'command'>): string {
  return `ExecStart=${command.map((word) => unitWord(word).replaceAll('$', '$$$$')).join(' ')}`;
}

/** Returns the data folder that the text of a unit names; `null` for none. */
export function dataDirIn(unit: string): string | null {
  const [, quoted, unquoted] = /^Environment=(?:"CONCH_DATA_DIR=(.*)"|CONCH_DATA_DIR=(.*))$/m.exec(unit) ?? [];
  return quoted?.replaceAll(/\\(["\\])/g, '$1').replaceAll('%%', '%') ?? unquoted ?? null;
}

function section(name: string, lines: readonly string[]): string {
  return [`[${name}]`, ...lines].join('\n');
}

function program({ dataDir, folder, ...plan }: UnitPlan): readonly string[] {
  return [
    'Type=notify',
    // Lets systemd-notify, a child process of Conch, report to systemd.
    'NotifyAccess=all',
    commandLine(plan),
    `WorkingDirectory=${folder.replaceAll('%', '%%')}`,
    `Environment=${unitWord(`CONCH_DATA_DIR=${dataDir}`)}`,
    `EnvironmentFile=-${`${folder}/conch.env`.replaceAll('%', '%%')}`,
    'Restart=on-failure',
    `RestartSec=${SECONDS.restart}`,
    `RestartPreventExitStatus=${RESTART_CANNOT_HELP.join(' ')}`,
    `WatchdogSec=${SECONDS.watchdog}`,
    // The default signal, SIGABRT, writes a core file, which holds tokens.
    'WatchdogSignal=SIGKILL',
    'LimitCORE=0',
    `TimeoutStartSec=${SECONDS.start}`,
    `TimeoutStopSec=${SECONDS.stop}`,
    // Only Conch gets SIGTERM, not its agents: Conch ends them itself.
    'KillMode=mixed',
    'UMask=0077',
  ];
}

function ownUser({ runAs }: UnitPlan): readonly string[] {
  return [
    ...(runAs === null ? ['DynamicUser=yes', `Environment=HOME=${SYSTEM_HOME}`] : [`User=${runAs}`]),
    `StateDirectory=conch${runAs === null ? ' conch-home' : ''}`,
    'StateDirectoryMode=0700',
    'ProtectHome=read-only',
  ];
}

/** Protections of every unit. MemoryDenyWriteExecute is not among them: V8 writes machine code. */
const PROTECTIONS = [
  'NoNewPrivileges=yes',
  'ProtectSystem=strict',
  'PrivateTmp=yes',
  'LockPersonality=yes',
  'RestrictRealtime=yes',
  'RestrictSUIDSGID=yes',
  // Programs read the addresses of the machine through AF_NETLINK.
  'RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK',
  'SystemCallArchitectures=native',
  'SystemCallErrorNumber=EPERM',
];

/** Protections for units of the machine only: the systemd of a user has no rights for them. */
const SYSTEM_PROTECTIONS = [
  'CapabilityBoundingSet=',
  'AmbientCapabilities=',
  'PrivateDevices=yes',
  'ProtectHostname=yes',
  'ProtectClock=yes',
  'ProtectKernelModules=yes',
  'ProtectControlGroups=yes',
  'RemoveIPC=yes',
];

/**
 * Options for a service without the sandbox of agents. They deny privileged system calls. They allow the group
 * `@resources`, because Conch and its agents lower the priority of background work.
 */
const WITHOUT_SANDBOX = ['RestrictNamespaces=yes', 'SystemCallFilter=@system-service', 'SystemCallFilter=~@privileged'];

/** Options that hide parts of `/proc`. The kernel then refuses the new `/proc` that bubblewrap mounts. */
const SYSTEM_WITHOUT_SANDBOX = ['ProtectKernelTunables=yes', 'ProtectKernelLogs=yes', 'ProtectProc=invisible'];

/** bubblewrap makes namespaces of all kinds and mounts folders in them. */
const WITH_SANDBOX = ['SystemCallFilter=@system-service @mount'];

function writablePaths({ scope, dataDir, writable }: UnitPlan): readonly string[] {
  const paths = scope === 'system' ? writable : [dataDir, ...writable];
  return paths.length === 0 ? [] : [`ReadWritePaths=${paths.map(unitWord).join(' ')}`];
}

/** Quotes a word for a systemd unit file, unless it consists of ASCII letters, digits and `_@./:=+-`. */
function unitWord(text: string): string {
  const escaped = text.replaceAll('%', '%%').replaceAll('\\', '\\\\').replaceAll('"', '\\"');
  return /^[\w@./:=+-]+$/.test(text) ? text : `"${escaped}"`;
}
