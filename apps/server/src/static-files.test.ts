import { mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { withPage, withStaticFiles } from "./static-files.ts";

const base = mkdtempSync(join(tmpdir(), "static-"));
const folder = join(base, "public");
beforeAll(() => {
  mkdirSync(join(folder, "docs"), { recursive: true });
  mkdirSync(join(folder, "empty"));
  writeFileSync(join(folder, "index.html"), "home");
  writeFileSync(join(folder, "docs", "index.html"), "docs");
  writeFileSync(join(folder, "chat page.js"), "script");
  writeFileSync(join(folder, "large.bin"), "");
  writeFileSync(join(folder, ".env"), "secret");
  writeFileSync(join(base, "outside.txt"), "secret");
  symlinkSync(join(base, "outside.txt"), join(folder, "link.txt"));
});
afterAll(() => rmSync(base, { recursive: true }));

const serve = withStaticFiles(async () => new Response("api", { status: 404 }), { folder, hosts: ["localhost"] });
const get = async (path: string, init: RequestInit = {}, host = "localhost"): Promise<string> =>
  (await serve(new Request(`http://${host}:4242${path}`, init))).text();

describe("static files", () => {
  it.each([
    ["/", "home"],
    ["/index.html", "home"],
    ["/docs", "docs"],
    ["/docs/", "docs"],
    ["/chat%20page.js", "script"],
  ])("serves %s", async (path, text) => {
    expect(await get(path)).toBe(text);
  });

  it.each([
    "/.env",
    "/%2e%2e/outside.txt",
    "/..%2foutside.txt",
    "/link.txt",
    "/empty",
    "/docs%5cindex.html",
    "/%00",
    "/%",
    "/none.js",
  ])("passes %s on to the API", async (path) => {
    expect(await get(path)).toBe("api");
  });

  it("passes other methods and other hosts on to the API, and answers HEAD without a body", async () => {
    expect(await get("/", { method: "POST" })).toBe("api");
    expect(await get("/", {}, "evil.example")).toBe("api");
    expect(await get("/", { method: "HEAD" })).toBe("");
  });

  it("are served below a prefix, and the modules of the package beside a page", async () => {
    const api = async () => new Response("api", { status: 404 });
    const below = withStaticFiles(api, { folder, prefix: "/app/", hosts: null });
    const read = async (handler: typeof serve, path: string) =>
      (await handler(new Request(`http://localhost${path}`))).text();
    expect(await Promise.all(["/app/", "/app/docs", "/docs", "/app"].map((path) => read(below, path)))).toEqual([
      "home",
      "docs",
      "api",
      "api",
    ]);
    const page = withPage(api, { folder, hosts: null });
    expect(await read(page, "/docs")).toBe("docs");
    expect(await read(page, "/everturn/client.js")).toMatch(/export \{[^}]*\bconversation\b/);
    expect(await read(page, "/everturn/none.js")).toBe("api");
  });

  it("reads a large file as its client accepts it", async () => {
    truncateSync(join(folder, "large.bin"), 100_000_000);
    const before = process.memoryUsage().arrayBuffers;
    const responses = await Promise.all(
      Array.from({ length: 8 }, () => serve(new Request("http://localhost/large.bin"))),
    );
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(50_000_000);
    expect(responses[0]?.headers.get("content-length")).toBe("100000000");
    for (const { body } of responses) await body?.cancel();
    truncateSync(join(folder, "large.bin"), 200_001);
    const whole = await serve(new Request("http://localhost/large.bin"));
    expect((await whole.arrayBuffer()).byteLength).toBe(200_001);
    const cut = await serve(new Request("http://localhost/large.bin"));
    truncateSync(join(folder, "large.bin"), 10);
    await expect(cut.arrayBuffer()).rejects.toThrow("shorter");
  });

  it("cannot be framed by other origins, and has its type", async () => {
    const { headers } = await serve(new Request("http://localhost/chat%20page.js"));
    expect(headers.get("x-frame-options")).toBe("SAMEORIGIN");
    expect(headers.get("content-type")).toBe("text/javascript; charset=utf-8");
    expect(headers.get("x-content-type-options")).toBe("nosniff");
  });
});
