import { BlockList, isIPv6 } from 'node:net';

/** Whether only this machine reaches a host, by its name or address. */
export function isLoopback(host: string): boolean {
  if (host === 'localhost') return true;
  const loopback = new BlockList();
  loopback.addSubnet('127.0.0.0', 8);
  loopback.addAddress('::1', 'ipv6');
  return loopback.check(host, isIPv6(host) ? 'ipv6' : 'ipv4');
}
