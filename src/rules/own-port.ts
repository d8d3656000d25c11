import { BlockList, isIP } from 'node:net';
import { readShell } from './shell.ts';

/**
 * Returns whether the texts of one tool call may name this port of this machine. Host and port may stand in different
 * words. Any host name directly before the port counts, because the name may lead to this machine.
 */
export function namesOwnPort(texts: readonly string[], port: number): boolean {
  const words = new Set(texts.flatMap((text) => [text, ...readShell(text).seen.flat()]).map(plain));
  const tokens = new Set([...words].flatMap((word) => word.match(TOKEN) ?? []));
  if (![...tokens].some((token) => namesPort(token, port))) return false;
  return [...tokens].some((token) => isWithPort(token, port) || hostsIn(token).some(isThisMachine));
}

const TOKEN = /[\p{L}\p{N}_.:%-]+/gu;

/**
 * Normalizes a text as address parsers do. Converts full-width letters and dots to ASCII, removes invisible characters,
 * and decodes `%` escapes of ASCII characters.
 */
function plain(text: string): string {
  return decoded(
    text
      .normalize('NFKC')
      .replaceAll(/\p{Cf}/gu, '')
      .replaceAll(/[。．｡]/g, '.'),
  );
}

function decoded(text: string): string {
  return text.replaceAll(/%([0-7][0-9a-f])/gi, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)));
}

function namesPort(token: string, port: number): boolean {
  return (token.match(/\d+/g) ?? []).some((digits) => Number(digits) === port);
}

function isWithPort(token: string, port: number): boolean {
  const { name, digits } = /^(?<name>.*[\p{L}.].*):0*(?<digits>\d+)$/su.exec(token)?.groups ?? {};
  return name !== undefined && Number(digits) === port;
}

/** Returns the texts in a token that may be a host: between colons (`name:port:address`), or several groups of IPv6. */
function hostsIn(token: string): readonly string[] {
  const trimmed = token.replaceAll(/^\.+|\.+$/g, '');
  const pieces = trimmed.split(':');
  const groups = pieces.flatMap((_, at) => [pieces.slice(0, at + 1).join(':'), pieces.slice(at).join(':')]);
  return [...new Set([...pieces, ...(pieces.length > MOST_GROUPS ? [] : groups)])].filter((each) => each !== '');
}

/** A token with more texts between colons is no IPv6 address with ports. */
const MOST_GROUPS = 11;

/** Returns whether a host is localhost, loopback or unspecified, also in octal, hexadecimal or short form. */
function isThisMachine(host: string): boolean {
  const read = (text: string): string => URL.parse(`http://${text}/`)?.hostname.replace(/^\[|\]$/g, '') ?? '';
  const name = read(host.includes(':') ? `[${host.replace(/%.*$/, '')}]` : host).replace(/\.$/, '');
  const family = isIP(name);
  if (family === 0) return /(?:^|\.)localhost$|^ip6-(?:localhost|loopback)$/.test(name);
  return THIS_MACHINE.check(name, family === 4 ? 'ipv4' : 'ipv6');
}

const THIS_MACHINE = new BlockList();
THIS_MACHINE.addSubnet('127.0.0.0', 8, 'ipv4');
THIS_MACHINE.addAddress('0.0.0.0', 'ipv4');
THIS_MACHINE.addAddress('::', 'ipv6');
THIS_MACHINE.addAddress('::1', 'ipv6');
// IPv6 addresses that hold an IPv4 address: compatible, mapped and translated.
for (const prefix of ['::', '::ffff:', '::ffff:0:', '64:ff9b::'])
  THIS_MACHINE.addSubnet(`${prefix}127.0.0.0`, 104, 'ipv6');
for (const prefix of ['::ffff:', '64:ff9b::']) THIS_MACHINE.addAddress(`${prefix}0.0.0.0`, 'ipv6');
