import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, beforeAll, expect, test } from "vitest";

import { withStaticFiles } from "./static-files.ts";
import { withStudio } from "./studio.ts";

const folder = mkdtempSync(join(tmpdir(), "studio-"));
beforeAll(() => {
  mkdirSync(join(folder, "public"));
  writeFileSync(join(folder, "public", "index.html"), "own page");
});
afterAll(() => rmSync(folder, { recursive: true }));

const api = async (): Promise<Response> => new Response("api");
const page = async (): Promise<Response> => new Response("page");
const serve = withStudio(api, page, ["localhost"]);
const browser = { accept: "text/html,application/xhtml+xml,*/*;q=0.8" };
const get = (path: string, headers: Record<string, string> = {}, method = "GET", host = "localhost") =>
  serve(new Request(`http://${host}:4242${path}`, { method, headers }));
const textAt = async (...request: Parameters<typeof get>) => (await get(...request)).text();

test("the studio is where browsers are sent that open the server, and other clients are not", async () => {
  const response = await get("/", browser);
  expect([response.status, response.headers.get("location")]).toEqual([302, "studio/"]);
  expect(await textAt("/", { accept: "application/json" })).toBe("api");
  expect(await textAt("/", browser, "POST")).toBe("api");
});

test("the studio gives way to the start page of a static folder", async () => {
  const both = withStaticFiles(serve, { folder: join(folder, "public"), hosts: ["localhost"] });
  const ask = async (path: string) => (await both(new Request(`http://localhost${path}`, { headers: browser }))).text();
  expect([await ask("/"), await ask("/studio/")]).toEqual(["own page", "page"]);
});

test("requests to other hosts and other paths are for the API", async () => {
  expect([await textAt("/studio"), await textAt("/studio/s/1")]).toEqual(["page", "page"]);
  expect(await textAt("/studio/", {}, "GET", "evil.example")).toBe("api");
  expect(await textAt("/", browser, "GET", "evil.example")).toBe("api");
  expect(await textAt("/studios")).toBe("api");
  expect(await textAt("/sessions", browser)).toBe("api");
});
