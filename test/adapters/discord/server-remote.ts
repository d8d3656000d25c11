import type { DiscordServer } from './server.ts';

type Methods = {
  [Name in keyof DiscordServer]: DiscordServer[Name] extends (...args: never[]) => unknown ? Name : never;
}[keyof DiscordServer];
type Values = Exclude<keyof DiscordServer, Methods>;

/** A fake Discord in another process. Methods return promises; properties are read with `get`. */
export type RemoteDiscord = {
  readonly [Name in Methods]: (
    ...args: Parameters<DiscordServer[Name]>
  ) => Promise<Awaited<ReturnType<DiscordServer[Name]>>>;
} & { readonly get: <Name extends Values>(name: Name) => Promise<DiscordServer[Name]> };

/** Controls a server in its own process, by the `apiUrl` that it printed. Results are copies. */
export function remoteDiscord(apiUrl: string): RemoteDiscord {
  const call = async (name: string, args: readonly unknown[]): Promise<unknown> => {
    const url = new URL(`/control/${name}`, apiUrl);
    const response = await fetch(url, { method: 'POST', body: JSON.stringify(args) });
    const result: unknown = await response.json();
    if (!response.ok) throw new Error(`${name}: ${JSON.stringify(result)}`);
    return result;
  };
  return new Proxy({} as RemoteDiscord, {
    get(_, name) {
      if (typeof name !== 'string' || name === 'then') return undefined;
      if (name === 'get') return (key: string) => call(key, []);
      return (...args: unknown[]) => call(name, args);
    },
  });
}
