import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";

import { serveStudio } from "everturn/studio";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

const base = mkdtempSync(join(tmpdir(), "studio-"));
const folder = join(base, "studio");
const script = "console.log('a script that is long enough to be compressed');\n".repeat(20);
beforeAll(() => {
  mkdirSync(join(folder, "assets"), { recursive: true });
  writeFileSync(join(folder, "index.html"), "<title>page</title>");
  writeFileSync(join(folder, ".stamp"), "digest");
  writeFileSync(join(folder, "icon.svg"), "<svg/>");
  writeFileSync(join(folder, "assets", "index-1.js"), script);
  writeFileSync(join(folder, "assets", "index-1.js.map"), '{"version":3}');
  writeFileSync(join(base, "secret.txt"), "secret");
});
afterAll(() => rmSync(base, { recursive: true }));

let serve: ReturnType<typeof serveStudio>;
beforeAll(() => {
  serve = serveStudio({ folder });
});
const browser = { accept: "text/html,application/xhtml+xml,*/*;q=0.8" };
const get = (path: string, headers: Record<string, string> = {}, method = "GET") =>
  serve(new Request(`http://localhost:4242${path}`, { method, headers }));

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

  test("answers its path without a slash at the end with the one with it, and refuses other methods", async () => {
    const response = await get("/studio", browser);
    expect([response.status, response.headers.get("location")]).toEqual([302, "studio/"]);
    expect((await get("/studio/", {}, "POST")).status).toBe(405);
    const head = await get("/studio/", {}, "HEAD");
    expect([head.status, await head.text()]).toEqual([200, ""]);
    for (const path of ["/studios", "/", "/sessions"]) expect((await get(path, browser)).status).toBe(404);
  });

  test("says what to do if the page is not in the folder, or a path is none", () => {
    expect(() => serveStudio({ folder: base })).toThrow(/^the studio is not in .*npm run build/);
    for (const path of ["", "studio", "/studio/", "/a/../b", "/a b", "/a?b"])
      expect(() => serveStudio({ folder, basePath: path })).toThrow(/^basePath: .* must be a path like/);
    expect(() => serveStudio({ folder, api: "api" })).toThrow(/^api: "api" must be a path/);
  });
});

describe("the built studio", () => {
  const references = (html: string) =>
    [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, reference = ""]) => reference);

  test.each([
    ["/admin/studio", "/api", "../../api/"],
    ["/admin/studio", "/admin", "../../admin/"],
    ["/studio", "", "../"],
  ])("below %s loads everything from there, and finds the API at %s", async (basePath, api, toApi) => {
    const studio = serveStudio({ basePath, api });
    for (const path of ["/", "/s/one%2Ftwo?turn=t1", "/a/deep/address"]) {
      const address = `http://localhost${basePath}${path}`;
      const html = await (await studio(new Request(address, { headers: browser }))).text();
      expect(html).toContain(`<meta name="everturn-api" content="${toApi}" />`);
      expect(references(html).length).toBeGreaterThan(2);
      for (const reference of references(html)) {
        const url = new URL(reference, address);
        expect(url.pathname).toMatch(new RegExp(`^${basePath}/(?:assets/|icon\\.svg$)`));
        expect([reference, (await studio(new Request(url))).status]).toEqual([reference, 200]);
      }
    }
  });

  test("has a page of its own tag for each depth, so that no cache mixes them", async () => {
    const studio = serveStudio();
    const tags = ["/studio/", "/studio/s/1", "/studio/overview"].map(
      async (path) => (await studio(new Request(`http://localhost${path}`))).headers.get("etag") ?? "",
    );
    const [start, session, overview] = await Promise.all(tags);
    expect(start).toBe(overview);
    expect(session).not.toBe(start);
  });

  test("names its other files relatively in scripts and styles", async () => {
    const studio = serveStudio();
    const read = async (path: string) => (await studio(new Request(`http://localhost/studio/${path}`))).text();
    for (const reference of references(await read("")).filter((name) => /\.(?:js|css)$/.test(name))) {
      expect(await read(reference.slice(2))).not.toMatch(/["'(`]\/(?:studio|assets)\//);
    }
  });
});
