// Serves the files of one folder, for a page beside the API. The files are public: no authentication.
//
// Invariants
//   1. Path traversal: a path with `..`, a dot file, a backslash or NUL is never served, and neither is a symbolic link
//      that leaves the folder. The API answers such requests (404).
//   2. The `Host` allowlist of the server applies here too (DNS rebinding).
//   3. A file is read as its client accepts it: clients without a key that request large files and do not read them
//      cost no memory.
//   4. Pages of other origins cannot embed a file in a frame (clickjacking: the page may have a button that approves a
//      tool call).

import type { FileHandle } from "node:fs/promises";

import { open, realpath, stat } from "node:fs/promises";
import { extname, join, sep } from "node:path";
import { fileURLToPath } from "node:url";

type Handler = (request: Request) => Promise<Response>;

export type StaticOptions = {
  /** The absolute path of the folder. */
  readonly folder: string;
  /** The path at which the files are served, with a slash at its end. Default: `/`. */
  readonly prefix?: string;
  /** The allowlist of host names, without port; `null`: all. */
  readonly hosts: readonly string[] | null;
};

/**
 * The built modules of the package. The bundle that has this file is one of them; the sources are in apps/server/src.
 */
const modulesFolder = fileURLToPath(
  new URL(import.meta.url.endsWith(".ts") ? "../../../lib/dist/" : "./", import.meta.url),
);

const contentTypes: { readonly [extension: string]: string } = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".mjs": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".json": "application/json",
  ".map": "application/json",
  ".txt": "text/plain; charset=utf-8",
  ".svg": "image/svg+xml",
  ".png": "image/png",
  ".jpg": "image/jpeg",
  ".webp": "image/webp",
  ".ico": "image/x-icon",
  ".woff2": "font/woff2",
  ".wasm": "application/wasm",
};

/** The media type of a file, by the extension of its name. */
function contentTypeOf(path: string): string {
  return contentTypes[extname(path).toLowerCase()] ?? "application/octet-stream";
}

/** A handler that serves the files of the folder, and passes every other request on. */
export function withStaticFiles(handler: Handler, { folder, prefix = "/", hosts }: StaticOptions): Handler {
  return async (request) => {
    const { pathname, hostname } = new URL(request.url);
    const isReading = request.method === "GET" || request.method === "HEAD";
    if (!isReading || (hosts !== null && !hosts.includes(hostname.toLowerCase()))) return handler(request);
    const path = pathname.startsWith(prefix) ? await fileAt(folder, pathname.slice(prefix.length)) : null;
    if (path === null) return handler(request);
    const { size } = await stat(path);
    const headers = {
      "content-type": contentTypeOf(path),
      "content-length": `${size}`,
      "cache-control": "no-cache",
      "x-content-type-options": "nosniff",
      "x-frame-options": "SAMEORIGIN",
    };
    return new Response(request.method === "HEAD" || size === 0 ? null : fileStream(path, size), { headers });
  };
}

/**
 * A handler that serves the page of a user, and for its imports the modules of the package at `/everturn/`, for example
 * `/everturn/client.js`.
 */
export function withPage(handler: Handler, options: StaticOptions): Handler {
  return withStaticFiles(
    withStaticFiles(handler, { ...options, folder: modulesFolder, prefix: "/everturn/" }),
    options,
  );
}

/**
 * The content of a file, read as the client accepts it. `size` bytes at most, as stated in `content-length`, also if
 * the file grows meanwhile.
 */
function fileStream(path: string, size: number): ReadableStream<Uint8Array> {
  const chunkSize = 65_536;
  let file: FileHandle | null = null;
  let offset = 0;
  const close = async () => {
    await file?.close();
    file = null;
  };
  return new ReadableStream<Uint8Array>(
    {
      pull: async (controller) => {
        file ??= await open(path);
        const length = Math.min(chunkSize, size - offset);
        const { bytesRead, buffer } = await file.read(new Uint8Array(length), 0, length, offset);
        offset += bytesRead;
        if (bytesRead > 0) controller.enqueue(buffer.subarray(0, bytesRead));
        if (bytesRead === length && offset < size) return;
        await close();
        // A file that has become shorter: the connection is cut off, so that the client does not take the content for
        // complete.
        if (offset < size) controller.error(new Error("the file has become shorter"));
        else controller.close();
      },
      cancel: close,
    },
    // Nothing is read before the client asks for it.
    { highWaterMark: 0 },
  );
}

/** The file of a URL path: the file itself, or `index.html` of a folder; `null`: there is none. */
async function fileAt(folder: string, pathname: string): Promise<string | null> {
  const names =
    decoded(pathname)
      ?.split("/")
      .filter((name) => name !== "") ?? null;
  if (names === null || names.some((name) => name.startsWith(".") || /[\\\0]/.test(name))) return null;
  try {
    const root = await realpath(folder);
    const path = await realpath(join(root, ...names));
    const isInside = path === root || path.startsWith(root + sep);
    if (!isInside) return null;
    const stats = await stat(path);
    if (stats.isFile()) return path;
    const index = await realpath(join(path, "index.html"));
    return index.startsWith(root + sep) && (await stat(index)).isFile() ? index : null;
  } catch {
    // No such file: the API answers.
    return null;
  }
}

function decoded(pathname: string): string | null {
  try {
    return decodeURIComponent(pathname);
  } catch {
    return null;
  }
}
