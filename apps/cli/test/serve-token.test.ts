// `everturn serve` without a configured token: it creates one that only the user can read, and prints a link that logs
// in to the studio once.

import { chmodSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { createPlace, ended, says } from "./harness.ts";

let place = createPlace();
beforeEach(() => (place = createPlace()));
afterEach(() => place.remove());

const tokenFile = () => join(place.folder, "everturn", "token");
const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8);

async function serve(...flags: readonly string[]) {
  const child = place.start(["serve", "--port", "0", ...flags]);
  const over = ended(child);
  const output = await says(child.stdout, /The studio is at http:\S+\n/);
  return {
    url: /listens on (http:\S+)/.exec(output)?.[1] ?? "",
    link: /The studio is at (http:\S+)/.exec(output)?.[1] ?? "",
    stop: async () => {
      child.kill("SIGTERM");
      return over;
    },
  };
}

const codeIn = (link: string) => new URL(link).hash.replace(/^#code=/, "");

async function redeem(url: string, code: string): Promise<{ readonly status: number; readonly token: string | null }> {
  const answer = await fetch(`${url}/login`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ code }),
  });
  const body: unknown = await answer.json();
  const token = typeof body === "object" && body !== null && "token" in body ? String(body.token) : null;
  return { status: answer.status, token };
}

const statusWith = async (url: string, headers: Record<string, string> = {}) =>
  (await fetch(`${url}/sessions`, { headers })).status;

describe("serve without a configured token", () => {
  it("creates a token that only the user can read, uses it again, and refuses requests without it", async () => {
    const first = await serve();
    expect([modeOf(tokenFile()), modeOf(join(place.folder, "everturn"))]).toEqual(["600", "700"]);
    const token = readFileSync(tokenFile(), "utf8").trim();
    expect(Buffer.from(token, "base64url").length).toBeGreaterThanOrEqual(32);
    expect(await statusWith(first.url)).toBe(401);
    expect(await statusWith(first.url, { authorization: `Bearer ${token}` })).toBe(200);
    const server: unknown = await (
      await fetch(`${first.url}/server`, { headers: { authorization: `Bearer ${token}` } })
    ).json();
    expect(server).toMatchObject({ operator: true, records: true });
    const { stdout, stderr } = await first.stop();
    expect(stdout + stderr).not.toContain(token);
    const second = await serve();
    expect(readFileSync(tokenFile(), "utf8").trim()).toBe(token);
    expect(await statusWith(second.url, { authorization: `Bearer ${token}` })).toBe(200);
    expect(codeIn(second.link)).not.toBe(codeIn(first.link));
    await second.stop();
  });

  it("prints a link whose code is exchanged for the token once, and not after a restart", async () => {
    const { url, link, stop } = await serve();
    expect(link.startsWith(`${url}/studio/#code=`)).toBe(true);
    const token = readFileSync(tokenFile(), "utf8").trim();
    expect(await redeem(url, codeIn(link))).toEqual({ status: 200, token });
    expect(await redeem(url, codeIn(link))).toEqual({ status: 401, token: null });
    const { stderr } = await stop();
    expect(stderr).toMatch(/POST \/login 200/);
    expect(stderr).not.toContain(codeIn(link));
    const port = new URL(url).port;
    const again = await serve("--port", port);
    expect(await redeem(again.url, codeIn(link))).toEqual({ status: 401, token: null });
    await again.stop();
  });

  it("prints another link with `everturn studio`, which reads the token file", async () => {
    const { url, stop } = await serve();
    const { code, stdout } = await place.run(["studio", "--port", new URL(url).port]);
    expect(code).toBe(0);
    const link = stdout.trim();
    expect(link.startsWith(`${url}/studio/#code=`)).toBe(true);
    expect((await redeem(url, codeIn(link))).status).toBe(200);
    await stop();
    const missing = await place.run(["studio", "--port", new URL(url).port]);
    expect([missing.code, missing.stderr]).toEqual([2, expect.stringContaining("start it with `everturn serve`")]);
  });

  it.each([
    ["a file that others can read", () => chmodSync(tokenFile(), 0o644), /other users can read .*token \(mode 644\)/],
    ["a file that is no token", () => writeFileSync(tokenFile(), "short"), /token .*holds no token/],
  ])("refuses %s", async (_, change, message) => {
    mkdirSync(join(place.folder, "everturn"), { mode: 0o700 });
    writeFileSync(tokenFile(), "a".repeat(43), { mode: 0o600 });
    change();
    const { code, stderr } = await place.run(["serve", "--port", "0"]);
    expect([code, stderr]).toEqual([2, expect.stringMatching(message)]);
    expect(stderr).toContain("delete");
    expect(stderr).not.toContain("a".repeat(43));
  });

  it("refuses a symbolic link in place of the file, and a folder that others can write", async () => {
    mkdirSync(join(place.folder, "everturn"), { mode: 0o700 });
    writeFileSync(join(place.folder, "planted"), "b".repeat(43), { mode: 0o600 });
    symlinkSync(join(place.folder, "planted"), tokenFile());
    const linked = await place.run(["serve", "--port", "0"]);
    expect([linked.code, linked.stderr]).toEqual([2, expect.stringContaining("symbolic link")]);
    chmodSync(join(place.folder, "everturn"), 0o777);
    const open = await place.run(["serve", "--port", "0"]);
    expect([open.code, open.stderr]).toEqual([2, expect.stringContaining("other users can write the folder")]);
  });

  it("prints links with the address that is bound if the host is localhost", async () => {
    const { url, link, stop } = await serve("--host", "localhost");
    expect(link).toMatch(/^http:\/\/(?:127\.0\.0\.1|\[::1\]):\d+\/studio\/#code=/);
    const { stdout } = await place.run(["studio", "--host", "localhost", "--port", new URL(url).port]);
    expect(stdout.startsWith(`${url}/studio/#code=`)).toBe(true);
    await stop();
  });

  it("still refuses an address that other machines can reach", async () => {
    const { code, stderr } = await place.run(["serve", "--host", "0.0.0.0"]);
    expect([code, stderr]).toEqual([2, expect.stringContaining("set a token, or listen on 127.0.0.1")]);
  });
});

describe("serve --no-token", () => {
  it("accepts requests without a token, and refuses those that a proxy forwards", async () => {
    const { url, link, stop } = await serve("--no-token");
    expect(link).toBe(`${url}/studio/`);
    expect(statSync(tokenFile(), { throwIfNoEntry: false })).toBeUndefined();
    expect(await statusWith(url)).toBe(200);
    expect(await statusWith(url, { "x-forwarded-for": "192.0.2.7" })).toBe(403);
    await stop();
  });

  it("is also EVERTURN_TOKEN=off", async () => {
    const child = place.start(["serve", "--port", "0"], { EVERTURN_TOKEN: "off" });
    const over = ended(child);
    const url = /listens on (http:\S+)/.exec(await says(child.stdout, /listens on http:\S+\n/))?.[1] ?? "";
    expect(await statusWith(url)).toBe(200);
    child.kill("SIGTERM");
    await over;
  });
});

it("studio --open passes the browser a page that only the user can read, and no code in an argument", async () => {
  const { url, stop } = await serve();
  const opened: string[] = [];
  const { stdout } = await place.run(["studio", "--port", new URL(url).port, "--open"], {
    environment: process.platform === "linux" ? { DISPLAY: ":0" } : {},
    openBrowser: (target) => void opened.push(target),
  });
  const [page = ""] = opened;
  expect(page).toMatch(/^file:\/\/\/.*\/open-studio\.html$/);
  const path = fileURLToPath(page);
  expect(modeOf(path)).toBe("600");
  const link = /url=(http:[^"]+)"/.exec(readFileSync(path, "utf8"))?.[1] ?? "";
  // The printed link is another one, and stays usable.
  expect((await redeem(url, codeIn(link))).status).toBe(200);
  expect((await redeem(url, codeIn(stdout.trim()))).status).toBe(200);
  await stop();
});
