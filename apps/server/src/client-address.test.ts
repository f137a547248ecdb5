import { expect, test } from "vitest";

import { clientAddresses } from "./client-address.ts";

test.each<[string, readonly string[], string, string | null, string]>([
  ["ignores the header without a trusted proxy", [], "127.0.0.1", "1.2.3.4", "127.0.0.1"],
  ["ignores the header of another sender", ["10.0.0.0/8"], "8.8.8.8", "1.2.3.4", "8.8.8.8"],
  ["takes the last address that is no proxy", ["10.0.0.0/8"], "10.0.0.1", "6.6.6.6, 1.2.3.4, 10.0.0.2", "1.2.3.4"],
  ["takes IPv4 in its IPv6 form, with a port", ["loopback"], "::ffff:127.0.0.1", "1.2.3.4:5678", "1.2.3.4"],
  ["takes IPv6 in brackets", ["::1"], "::1", "[2001:db8::1]:443", "2001:db8::1"],
  ["takes the proxy if the header is missing", ["loopback"], "127.0.0.1", null, "127.0.0.1"],
  ["takes the proxy if the header has no address", ["loopback"], "127.0.0.1", "unknown", "127.0.0.1"],
  ["takes the first proxy if all are trusted", ["loopback", "10.0.0.1"], "127.0.0.1", "10.0.0.1", "10.0.0.1"],
])("%s", (_, trusted, connection, header, client) => {
  expect(clientAddresses(trusted)(connection, header)).toBe(client);
});
