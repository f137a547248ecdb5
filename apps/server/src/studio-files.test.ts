import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";

import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { withStaticFiles } from "./static-files.ts";
import { isStudioBuilt, withStudio } from "./studio-files.ts";

const base = mkdtempSync(join(tmpdir(), "studio-"));
const folder = join(base, "studio");
const script = "console.log('a script that is long enough to be compressed');\n".repeat(20);
beforeAll(() => {
  mkdirSync(join(folder, "assets"), { recursive: true });
  mkdirSync(join(base, "public"));
  writeFileSync(join(folder, "index.html"), "<title>page</title>");
  writeFileSync(join(folder, ".stamp"), "digest");
  writeFileSync(join(folder, "icon.svg"), "<svg/>");
  writeFileSync(join(folder, "assets", "index-1.js"), script);
  writeFileSync(join(folder, "assets", "index-1.js.map"), '{"version":3}');
  writeFileSync(join(base, "secret.txt"), "secret");
  writeFileSync(join(base, "public", "index.html"), "own page");
});
afterAll(() => rmSync(base, { recursive: true }));

const api = async (): Promise<Response> => new Response("api", { status: 404 });
const serve = withStudio(api, { hosts: ["localhost"], folder });
const browser = { accept: "text/html,application/xhtml+xml,*/*;q=0.8" };
const get = (path: string, headers: Record<string, string> = {}, method = "GET", host = "localhost") =>
  serve(new Request(`http://${host}:4242${path}`, { method, headers }));

describe("the studio", () => {
  test.each(["/studio/", "/studio/index.html", "/studio/sessions/one/turns/two", "/studio/overview?days=30"])(
    "answers %s with the page",
    async (path) => {
      const response = await get(path);
      expect([response.status, await response.text()]).toEqual([200, "<title>page</title>"]);
      expect(response.headers.get("content-type")).toBe("text/html; charset=utf-8");
      expect(response.headers.get("cache-control")).toBe("no-cache");
    },
  );

  test("answers an address that contains a dot with the page if a browser opens it", async () => {
    expect((await get("/studio/sessions/report.v2", browser)).status).toBe(200);
    expect((await get("/studio/sessions/report.v2")).status).toBe(404);
  });

  test("serves assets for a year, and compressed if the client accepts it", async () => {
    const plain = await get("/studio/assets/index-1.js");
    expect(await plain.text()).toBe(script);
    expect(plain.headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
    const zipped = await get("/studio/assets/index-1.js", { "accept-encoding": "br, gzip;q=0.8" });
    expect([zipped.headers.get("content-encoding"), zipped.headers.get("vary")]).toEqual(["gzip", "accept-encoding"]);
    expect(gunzipSync(Buffer.from(await zipped.arrayBuffer())).toString()).toBe(script);
    expect(zipped.headers.get("etag")).not.toBe(plain.headers.get("etag"));
    const refused = await get("/studio/assets/index-1.js", { "accept-encoding": "gzip;q=0" });
    expect(refused.headers.get("content-encoding")).toBeNull();
  });

  test("revalidates source maps: the name of a map has the digest of its code, and the map can change alone", async () => {
    const map = await get("/studio/assets/index-1.js.map");
    expect([map.status, await map.text()]).toEqual([200, '{"version":3}']);
    expect(map.headers.get("content-type")).toBe("application/json");
    expect(map.headers.get("cache-control")).toBe("no-cache");
    const tag = map.headers.get("etag") ?? "";
    expect((await get("/studio/assets/index-1.js.map", { "if-none-match": tag })).status).toBe(304);
  });

  test("answers 304 if the client has the page already", async () => {
    const tag = (await get("/studio/")).headers.get("etag") ?? "";
    const again = await get("/studio/sessions", { "if-none-match": `W/${tag}` });
    expect([again.status, await again.text()]).toEqual([304, ""]);
    expect((await get("/studio/", { "if-none-match": '"other"' })).status).toBe(200);
  });

  test.each([
    "/studio/assets/index-2.js",
    "/studio/assets/",
    "/studio/.stamp",
    "/studio/..%2fsecret.txt",
    "/studio/%2e%2e/secret.txt",
    "/studio/missing.js",
  ])("does not serve %s", async (path) => {
    const response = await get(path);
    expect(response.status).toBe(404);
    expect(await response.text()).not.toMatch(/secret|digest/);
  });

  test("allows no inline code, no external request and no frame, with every response", async () => {
    for (const path of ["/studio/", "/studio/assets/index-1.js", "/studio/icon.svg", "/studio/missing.js", "/studio"]) {
      const { headers } = await get(path);
      expect(headers.get("content-security-policy")).toBe(
        "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data: blob:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
      );
      expect(headers.get("x-content-type-options")).toBe("nosniff");
      expect(headers.get("referrer-policy")).toBe("no-referrer");
      expect(headers.get("cross-origin-opener-policy")).toBe("same-origin");
    }
  });

  test("is where browsers are sent that open the server, and other clients are not", async () => {
    for (const path of ["/", "/studio"]) {
      const response = await get(path, browser);
      expect([response.status, response.headers.get("location")]).toEqual([302, "/studio/"]);
    }
    expect(await (await get("/", { accept: "application/json" })).text()).toBe("api");
    expect(await (await get("/", browser, "POST")).text()).toBe("api");
  });

  test("gives way to the start page of a static folder", async () => {
    const both = withStaticFiles(serve, { folder: join(base, "public"), hosts: ["localhost"] });
    const ask = async (path: string) =>
      (await both(new Request(`http://localhost${path}`, { headers: browser }))).text();
    expect([await ask("/"), await ask("/studio/")]).toEqual(["own page", "<title>page</title>"]);
  });

  test("passes requests to other hosts and other paths on to the API, and refuses other methods", async () => {
    expect(await (await get("/studio/", {}, "GET", "evil.example")).text()).toBe("api");
    expect(await (await get("/studios")).text()).toBe("api");
    expect(await (await get("/sessions", browser)).text()).toBe("api");
    expect((await get("/studio/", {}, "POST")).status).toBe(405);
    const head = await get("/studio/", {}, "HEAD");
    expect([head.status, await head.text()]).toEqual([200, ""]);
  });

  test("knows whether the page was built", () => {
    expect([isStudioBuilt(folder), isStudioBuilt(join(base, "public")), isStudioBuilt(base)]).toEqual([
      true,
      true,
      false,
    ]);
  });
});
