// Serves the studio at `/studio/`: a page whose files are part of the package. The page is public and contains no
// secret; the API that it calls needs the token.
//
// Paths
//   /                        redirects browsers to /studio/
//   /studio/FILE             a file of the build
//   /studio/…                index.html: the page reads its address itself (history routes), for example
//                            /studio/sessions/ID
//   /studio/assets/NAME      404 if the build has no such file; a page of another build asks for it
//
// All files are read into memory by the first request, so a build that replaces them meanwhile does not mix with them,
// and the path of a request is never used as a path of the disk (path traversal).
//
// Invariants
//   1. The `Host` allowlist of the server applies (DNS rebinding).
//   2. Every response has the Content-Security-Policy: no inline script, no external request, no frame (clickjacking: a
//      button of the page approves tool calls). Images may be `data:` and `blob:` URLs, because users attach images to
//      messages; images of other hosts in Markdown are not loaded.
//   3. Assets have the digest of their content in their names and are cached for a year. The page is revalidated by its
//      entity tag, and so are source maps: a map has the name of its code, and an edited comment changes the map alone.

import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { constants, gzip } from "node:zlib";

import { contentTypeOf } from "./static-files.ts";

type Handler = (request: Request) => Promise<Response>;

type StudioFile = {
  readonly content: Uint8Array<ArrayBuffer>;
  /** The content compressed with gzip; `null`: it would not be smaller. */
  readonly compressed: Uint8Array<ArrayBuffer> | null;
  readonly type: string;
  /** A strong entity tag (RFC 9110 section 8.8.3), without quotes. */
  readonly tag: string;
};

/**
 * The folder of the built page. The bundle is in lib/dist, and lib/studio beside it; the sources are in
 * apps/server/src.
 */
const builtFolder = fileURLToPath(
  new URL(import.meta.url.endsWith(".ts") ? "../../../lib/studio/" : "../studio/", import.meta.url),
);

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

export type StudioOptions = {
  /** The allowlist of host names, without port; `null`: all. */
  readonly hosts: readonly string[] | null;
  /** Default: the page in the package. */
  readonly folder?: string;
};

/** Returns whether the page was built. A checkout of the repository has none before its first build. */
export function isStudioBuilt(folder = builtFolder): boolean {
  return existsSync(join(folder, "index.html"));
}

/** A handler that serves the studio, and passes every other request on. */
export function withStudio(handler: Handler, { hosts, folder = builtFolder }: StudioOptions): Handler {
  let loading: Promise<ReadonlyMap<string, StudioFile>> | null = null;
  const load = (): Promise<ReadonlyMap<string, StudioFile>> => {
    loading ??= readFiles(folder).catch((error: unknown) => {
      // The next request tries again.
      loading = null;
      throw error;
    });
    return loading;
  };
  return async (request) => {
    const { pathname, hostname } = new URL(request.url);
    const isStudio = pathname === "/studio" || pathname.startsWith("/studio/");
    const isStart = pathname === "/" && isReading(request) && acceptsHtml(request);
    if (!isStudio && !isStart) return handler(request);
    // The API answers requests to other hosts: 403.
    if (hosts !== null && !hosts.includes(hostname.toLowerCase())) return handler(request);
    if (!isReading(request)) return textResponse(405, "the studio is read with GET", { allow: "GET, HEAD" });
    if (isStart || pathname === "/studio") {
      return new Response(null, { status: 302, headers: { ...securityHeaders, location: "/studio/" } });
    }
    const files = await load();
    const path = pathname.slice("/studio/".length);
    const file = files.get(path);
    if (file !== undefined && path !== "index.html") {
      return fileResponse(request, file, path.startsWith("assets/") && !path.endsWith(".map"));
    }
    const page = files.get("index.html");
    const isMissing = path.startsWith("assets/") || (/\.[^/]*$/.test(path) && !acceptsHtml(request));
    if (page === undefined || (isMissing && file === undefined)) return textResponse(404, "there is no such file");
    return fileResponse(request, page, false);
  };
}

function isReading({ method }: Request): boolean {
  return method === "GET" || method === "HEAD";
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

async function readFiles(folder: string): Promise<ReadonlyMap<string, StudioFile>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = new Map<string, StudioFile>();
  for (const entry of entries) {
    if (!entry.isFile() || entry.name.startsWith(".")) continue;
    const path = join(entry.parentPath, entry.name);
    const name = path.slice(join(folder, "/").length).replaceAll("\\", "/");
    files.set(name, await studioFile(await readFile(path), name));
  }
  return files;
}

async function studioFile(buffer: Buffer, name: string): Promise<StudioFile> {
  const content = new Uint8Array(buffer);
  const zipped = new Uint8Array(await compress(content, { level: constants.Z_BEST_COMPRESSION }));
  const tag = createHash("sha256").update(content).digest("base64url").slice(0, 22);
  return { content, compressed: zipped.length < content.length * 0.9 ? zipped : null, type: contentTypeOf(name), tag };
}
