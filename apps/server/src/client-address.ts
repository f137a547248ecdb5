// The address of a client behind trusted proxies.
//
// A proxy appends the address that it sees to `X-Forwarded-For`, so the last entries are those of the own proxies, and
// everything before them may be invented by the client. The client is the last address that is no trusted proxy. The
// header counts only if the connection itself comes from a trusted proxy.

import { BlockList, isIP } from "node:net";

/** Returns the address of the client of a connection. `trusted`: addresses, networks, or `loopback`. */
export function clientAddresses(
  trusted: readonly string[],
): (connection: string, forwardedFor: string | null) => string {
  const proxies = new BlockList();
  for (const item of trusted.flatMap((name) => (name === "loopback" ? ["127.0.0.0/8", "::1"] : [name]))) {
    const [address = "", prefix] = item.split("/");
    const family = isIP(address) === 6 ? "ipv6" : "ipv4";
    if (prefix === undefined) proxies.addAddress(address, family);
    else proxies.addSubnet(address, Number(prefix), family);
  }
  const isProxy = (address: string): boolean => {
    const version = isIP(address);
    return version !== 0 && proxies.check(address, version === 6 ? "ipv6" : "ipv4");
  };
  return (connection, forwardedFor) => {
    let client = plainAddress(connection);
    const hops = (forwardedFor ?? "").split(",").map(plainAddress);
    while (isProxy(client)) {
      const hop = hops.pop();
      // What is no address was not written by the proxy: the proxy itself is counted.
      if (hop === undefined || isIP(hop) === 0) return client;
      client = hop;
    }
    return client;
  };
}

/** An address without brackets, port, zone and the IPv6 form of an IPv4 address. */
function plainAddress(text: string): string {
  const trimmed = text
    .trim()
    .replace(/^\[(.*)\](?::\d+)?$/, "$1")
    .replace(/%.*$/, "");
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(trimmed)?.[1] ?? trimmed;
  return /^(\d+\.\d+\.\d+\.\d+):\d+$/.exec(mapped)?.[1] ?? mapped;
}
