import { expect, test } from "vitest";

import { canOpenBrowser } from "./browser.ts";

test.each([
  ["linux", { DISPLAY: ":0" }, true],
  ["linux", { WAYLAND_DISPLAY: "wayland-0" }, true],
  ["linux", {}, false],
  ["linux", { DISPLAY: ":0", CI: "true" }, false],
  ["linux", { SSH_CONNECTION: "192.0.2.7 1 192.0.2.8 22" }, false],
  ["darwin", {}, true],
  ["darwin", { SSH_CONNECTION: "192.0.2.7 1 192.0.2.8 22" }, false],
  ["win32", {}, true],
  ["win32", { CI: "1" }, false],
] as const)("a browser can be opened on %s with %o: %s", (platform, environment, expected) => {
  expect(canOpenBrowser(environment, platform)).toBe(expected);
});
