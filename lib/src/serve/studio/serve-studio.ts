// Serves the studio: a page whose files are part of the package. The page is public and contains no secret; the API
// that it calls authenticates every request.
//
// Paths below `basePath`, which is `/studio` by default
//   /studio                  redirects to /studio/
//   /studio/FILE             a file of the build
//   /studio/…                index.html: the page reads its address itself (history routes), for example
//                            /studio/s/ID
//   /studio/assets/NAME      404 if the build has no such file; a page of another build asks for it
//
// All references are relative, so a reverse proxy may add a prefix that it removes from the requests: the page is
// written for the depth of the address at which it was asked for, modules and styles name each other relatively, and
// the page finds its own path by the address of its modules. The path of the API is an attribute of the page, relative
// to the path of the studio.
//
// All files are read into memory by the first request, so a build that replaces them meanwhile does not mix with them,
// and the path of a request is never used as a path of the disk (path traversal).
//
// Invariants
//   1. Every response has the Content-Security-Policy: no inline script, no external request, no frame (clickjacking: a
//      button of the page approves tool calls). Images may be `data:` and `blob:` URLs, because users attach images to
//      messages; images of other hosts in Markdown are not loaded.
//   2. Assets have the digest of their content in their names and are cached for a year. The page is revalidated by its
//      entity tag, and so are source maps: a map has the name of its code, and an edited comment changes the map alone.

import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { constants, gzip } from "node:zlib";

import { MisuseError } from "../../core/model/internal.ts";

/** Options of {@link serveStudio}. */
type StudioOptions = {
  /** The path at which the studio is mounted, for example `/admin/studio`. Default: `/studio`. */
  readonly basePath?: string;
  /** The mount path of the API: `basePath` of `createHandler`, for example `/api`. Default: the root. */
  readonly api?: string;
  /**
   * The folder with the built page. Needed if a bundler has moved this module out of the package: copy
   * `node_modules/everturn/studio` and name the copy. Default: the page in the package.
   */
  readonly folder?: string;
};

type StudioFile = {
  readonly content: Uint8Array<ArrayBuffer>;
  /** The content compressed with gzip; `null`: it would not be smaller. */
  readonly compressed: Uint8Array<ArrayBuffer> | null;
  readonly type: string;
  /** A strong entity tag (RFC 9110 section 8.8.3), without quotes. */
  readonly tag: string;
};

/** The folder of the built page. The bundle is in lib/dist, and lib/studio beside it; the source is in lib/src. */
const builtFolder = fileURLToPath(
  new URL(import.meta.url.endsWith(".ts") ? "../../../studio/" : "../studio/", import.meta.url),
);

/** The types of the files that the build writes. */
const contentTypes: { readonly [extension: string]: string } = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".map": "application/json",
  ".txt": "text/plain; charset=utf-8",
  ".svg": "image/svg+xml",
  ".woff2": "font/woff2",
};

const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "font-src 'self'",
  "img-src 'self' data: blob:",
  "connect-src 'self'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");

const securityHeaders = {
  "content-security-policy": contentSecurityPolicy,
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
} as const;

const compress = promisify(gzip);

/**
 * Serves the studio, the page that shows and steers the sessions of a handler: a function from `Request` to `Response`
 * for the requests below `basePath`. The page calls the API at `api` of the same origin, which needs `inspect: true`.
 * Throws `MisuseError` for a path that is none, and if the page is not in the folder.
 *
 * @example
 * ```ts
 * import { serveStudio } from "everturn/studio";
 *
 * const studio = serveStudio({ basePath: "/admin/studio", api: "/api" });
 * const page = await studio(new Request("http://localhost/admin/studio/overview"));
 * page.headers.get("content-type"); // => "text/html; charset=utf-8"
 * ```
 */
export function serveStudio(options: StudioOptions = {}): (request: Request) => Promise<Response> {
  const { folder = builtFolder } = options;
  const base = checkedPath("basePath", options.basePath ?? "/studio");
  const api = checkedPath("api", options.api ?? "");
  if (!existsSync(join(folder, "index.html"))) {
    const message = `the studio is not in ${folder}: in a checkout of the repository run \`npm run build\`; in a bundled program copy the folder \`studio\` of the package, and name the copy in \`folder\``;
    throw new MisuseError("invalid_argument", message, { path: ["folder"] });
  }
  /** From the path of the studio, with a slash at its end, to that of the API. */
  const toApi = up(base.split("/").length - 1) + (api === "" ? "" : `${api.slice(1)}/`);
  let loading: Promise<ReadonlyMap<string, StudioFile>> | null = null;
  const load = (): Promise<ReadonlyMap<string, StudioFile>> => {
    loading ??= readFiles(folder, toApi).catch((error: unknown) => {
      // The next request tries again.
      loading = null;
      throw error;
    });
    return loading;
  };
  return async (request) => {
    const { pathname } = new URL(request.url);
    if (pathname !== base && !pathname.startsWith(`${base}/`)) {
      return textResponse(404, `the studio is at ${base}/`);
    }
    if (request.method !== "GET" && request.method !== "HEAD") {
      return textResponse(405, "the studio is read with GET", { allow: "GET, HEAD" });
    }
    if (pathname === base) {
      const location = `${base.slice(base.lastIndexOf("/") + 1)}/`;
      return new Response(null, { status: 302, headers: { ...securityHeaders, location } });
    }
    const files = await load();
    const path = pathname.slice(base.length + 1);
    const file = files.get(path);
    if (file !== undefined && path !== "index.html") {
      return fileResponse(request, file, path.startsWith("assets/") && !path.endsWith(".map"));
    }
    const page = files.get("index.html");
    const isMissing = path.startsWith("assets/") || (/\.[^/]*$/.test(path) && !acceptsHtml(request));
    if (page === undefined || (isMissing && file === undefined)) return textResponse(404, "there is no such file");
    return fileResponse(request, pageAt(page, path.split("/").length - 1), false);
  };
}

/** A mount path without a slash at its end; the root is an empty text. */
function checkedPath(name: "basePath" | "api", path: string): string {
  if (path === "" && name === "api") return path;
  if (/^(?:\/[\w.~-]+)+$/.test(path) && !/\/\.{1,2}(?:\/|$)/.test(path)) return path;
  const message = `${name}: ${JSON.stringify(path)} must be a path like "/admin/studio"`;
  throw new MisuseError("invalid_argument", message, { path: [name] });
}

/** The relative address of the folder that is so many folders above. */
function up(folders: number): string {
  return folders === 0 ? "./" : "../".repeat(folders);
}

/** The page for an address that is so many folders below the path of the studio: its references begin with `./`. */
function pageAt(page: StudioFile, folders: number): StudioFile {
  if (folders === 0) return page;
  const text = new TextDecoder().decode(page.content).replaceAll('="./', `="${up(folders)}`);
  return { ...page, content: new TextEncoder().encode(text), compressed: null, tag: `${page.tag}-${folders}` };
}

/** Browsers name this type when they open a page, and not when they load a script or call the API. */
function acceptsHtml(request: Request): boolean {
  return request.headers.get("accept")?.includes("text/html") === true;
}

function fileResponse(request: Request, file: StudioFile, isImmutable: boolean): Response {
  const { content, compressed, type, tag } = file;
  const isCompressed = compressed !== null && acceptsGzip(request);
  // The compressed form is another representation, and has a tag of its own.
  const entityTag = `"${tag}${isCompressed ? "-gzip" : ""}"`;
  const headers: Record<string, string> = {
    ...securityHeaders,
    "cache-control": isImmutable ? "public, max-age=31536000, immutable" : "no-cache",
    etag: entityTag,
    ...(compressed === null ? {} : { vary: "accept-encoding" }),
  };
  if (matchesTag(request.headers.get("if-none-match"), entityTag)) return new Response(null, { status: 304, headers });
  headers["content-type"] = type;
  if (isCompressed) headers["content-encoding"] = "gzip";
  return new Response(request.method === "HEAD" ? null : isCompressed ? compressed : content, { headers });
}

/** Whether `Accept-Encoding` names gzip and does not refuse it (`gzip;q=0`). */
function acceptsGzip(request: Request): boolean {
  const encodings = request.headers.get("accept-encoding") ?? "";
  return encodings.split(",").some((part) => /^\s*gzip\s*(?:;\s*q=(?!0(?:\.0*)?\s*$).*)?$/i.test(part));
}

/** Whether `If-None-Match` names the tag. Proxies may have made it weak (`W/`). */
function matchesTag(header: string | null, tag: string): boolean {
  if (header === null) return false;
  return header.split(",").some((part) => part.trim().replace(/^W\//, "") === tag || part.trim() === "*");
}

function textResponse(status: number, text: string, headers: Record<string, string> = {}): Response {
  return new Response(`${text}\n`, {
    status,
    headers: {
      ...securityHeaders,
      "content-type": "text/plain; charset=utf-8",
      "cache-control": "no-cache",
      ...headers,
    },
  });
}

async function readFiles(folder: string, toApi: string): Promise<ReadonlyMap<string, StudioFile>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = new Map<string, StudioFile>();
  for (const entry of entries) {
    if (!entry.isFile() || entry.name.startsWith(".")) continue;
    const path = join(entry.parentPath, entry.name);
    const name = path.slice(join(folder, "/").length).replaceAll("\\", "/");
    const buffer = await readFile(path);
    const content = name === "index.html" ? withApi(buffer, toApi) : buffer;
    files.set(name, await studioFile(new Uint8Array(content), name));
  }
  return files;
}

/** Writes the path of the API into the page. apps/studio/index.html has the element, with that of the root. */
function withApi(page: Buffer, toApi: string): Buffer {
  return Buffer.from(page.toString("utf8").replace(apiElement("../"), apiElement(toApi)));
}

function apiElement(path: string): string {
  return `<meta name="everturn-api" content="${path}" />`;
}

async function studioFile(content: Uint8Array<ArrayBuffer>, name: string): Promise<StudioFile> {
  const zipped = new Uint8Array(await compress(content, { level: constants.Z_BEST_COMPRESSION }));
  const tag = createHash("sha256").update(content).digest("base64url").slice(0, 22);
  const type = contentTypes[extname(name)] ?? "application/octet-stream";
  return { content, compressed: zipped.length < content.length * 0.9 ? zipped : null, type, tag };
}
