// Login by a link: `POST /login` exchanges a one-time code for the bearer token of the server, so that a link can log
// in without containing the token.
//
// Theory of operation
//   A code is the time at which it was created, a random nonce, and an HMAC-SHA256 of both and of the port of the
//   server, keyed with the token. Whoever can read the token can create codes, also another process than the server
//   (`everturn studio`), without a request that would send the token to whichever process listens there. The code is in
//   the fragment of the link (`#code=…`). Browsers send a fragment neither to the server nor in `Referer`; the page
//   sends it in the body of the exchange, which no log contains.
//
// Invariants
//   1. A code is accepted once. The nonces of accepted codes are kept until they have expired.
//   2. A code is accepted for `loginCodeMs` after its creation, and only if it is not older than the server: a restart
//      forgets the nonces.
//   3. A code for another port is refused: a process that listens at another port, and to which the link was opened,
//      cannot use the code here.
//   4. The HMAC is compared in constant time.

import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";

type Handler = (request: Request) => Promise<Response>;

/** How long a code can be used, in milliseconds. */
export const loginCodeMs = 10 * 60 * 1000;

/** The longest body of a request to `/login`, in bytes. */
const longestBody = 1024;

/** Creates a code with which a page of the server at this port obtains the token. */
export function createLoginCode(token: string, port: number, now = Date.now()): string {
  const facts = `${now.toString(36)}.${randomBytes(16).toString("base64url")}`;
  return `${facts}.${codeDigest(token, port, facts).toString("base64url")}`;
}

/** Accepts the codes of one server. */
export class LoginCodes {
  readonly #token: string;
  readonly #port: number;
  readonly #startedAt: number;
  /** Accepted codes without their digests, with the times at which they expire. */
  readonly #accepted = new Map<string, number>();

  /** `startedAt`: the time at which the server started. Older codes are refused. */
  constructor(token: string, port: number, startedAt: number) {
    this.#token = token;
    this.#port = port;
    this.#startedAt = startedAt;
  }

  /** Returns the token for a code; `null`: the code is invalid, has expired, or was accepted before. */
  redeem(code: string, now = Date.now()): string | null {
    for (const [facts, until] of this.#accepted) if (until <= now) this.#accepted.delete(facts);
    const [, facts = "", time = "", digest = ""] = /^(([\da-z]{1,11})\.[\w-]{22})\.([\w-]{43})$/.exec(code) ?? [];
    if (facts === "") return null;
    const given = Buffer.from(digest, "base64url");
    const expected = codeDigest(this.#token, this.#port, facts);
    if (given.length !== expected.length || !timingSafeEqual(given, expected)) return null;
    const createdAt = Number.parseInt(time, 36);
    const isFresh = createdAt >= this.#startedAt && createdAt <= now && now < createdAt + loginCodeMs;
    if (!isFresh || this.#accepted.has(facts)) return null;
    this.#accepted.set(facts, createdAt + loginCodeMs);
    return this.#token;
  }
}

function codeDigest(token: string, port: number, facts: string): Buffer {
  return createHmac("sha256", token).update(`everturn login\n${port}\n${facts}`).digest();
}

/** A handler that answers `POST /login`, and passes every other request on. */
export function withLogin(handler: Handler, codes: () => LoginCodes | null): Handler {
  return async (request) => {
    if (new URL(request.url).pathname !== "/login") return handler(request);
    const accepting = codes();
    if (accepting === null) return handler(request);
    if (request.method !== "POST") {
      return errorResponse(405, "method_not_allowed", "a code is sent with POST", { allow: "POST" });
    }
    // Pages of other origins cannot send this type without a preflight request, which is not answered here.
    if (!/^application\/json\b/i.test(request.headers.get("content-type") ?? "")) {
      return errorResponse(415, "unsupported_media_type", "the body has to be JSON (content-type: application/json)");
    }
    const token = accepting.redeem(codeIn(await bodyOf(request)));
    if (token !== null) return Response.json({ token }, { headers: responseHeaders });
    return errorResponse(
      401,
      "unauthorized",
      "the code of the link was used before, or has expired: `everturn studio` prints a new link",
    );
  };
}

const responseHeaders = {
  "cache-control": "no-store",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
} as const;

/** An error response in the format of the API. */
export function errorResponse(
  status: number,
  reason: string,
  message: string,
  headers: { readonly [name: string]: string } = {},
): Response {
  return Response.json(
    { error: { type: "http_error", reason, message } },
    { status, headers: { ...responseHeaders, ...headers } },
  );
}

/** The body as text; empty: it is longer than a code can be. */
async function bodyOf(request: Request): Promise<string> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of request.body ?? []) {
    length += chunk.length;
    if (length > longestBody) return "";
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function codeIn(text: string): string {
  try {
    const body: unknown = JSON.parse(text);
    return typeof body === "object" && body !== null && "code" in body && typeof body.code === "string"
      ? body.code
      : "";
  } catch {
    return "";
  }
}
