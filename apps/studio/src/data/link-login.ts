// Login by a link: the server prints a link to this page with a code in its fragment (`#code=…`), which is exchanged
// once for the token.
//
// The code is removed from the address bar and from the history entry before the page is rendered. Browsers never send
// a fragment, so it is in no log and no `Referer`. The exchange is kept as a promise, because React runs effects twice
// in development and the code is accepted once.

import { apiUrl } from "../route.ts";

let code: string | null = null;
let exchange: Promise<LinkLogin> | null = null;

/** Takes the code out of the address. Called once, before the page is rendered. */
export function takeLink(): void {
  code = takeCode();
  // A link that is opened in a tab in which the page is open changes the fragment only.
  addEventListener("hashchange", () => {
    if (codeInAddress() !== null) location.reload();
  });
}

/**
 * The result of the exchange: the token, or that the server refused the code. `null`: the page was not opened with such
 * a link.
 */
export type LinkLogin = { readonly token: string } | "rejected" | null;

/** Exchanges the code of the link, once. Rejects if the server does not answer; the next call tries again. */
export function logInByLink(): Promise<LinkLogin> {
  exchange ??= exchangeCode(code).catch((error: unknown) => {
    exchange = null;
    throw error;
  });
  return exchange;
}

/** Forgets the result, so that a logout is not followed by a login. */
export function forgetLink(): void {
  code = null;
  exchange = null;
}

async function exchangeCode(given: string | null): Promise<LinkLogin> {
  if (given === null) return null;
  const answer = await fetch(`${apiUrl()}/login`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ code: given }),
  });
  if (!answer.ok) return "rejected";
  const body: unknown = await answer.json();
  const token = typeof body === "object" && body !== null && "token" in body ? body.token : null;
  return typeof token === "string" ? { token } : "rejected";
}

function takeCode(): string | null {
  const given = codeInAddress();
  if (given !== null) history.replaceState(null, "", location.pathname + location.search);
  return given;
}

function codeInAddress(): string | null {
  return /^#code=([\w.-]+)$/.exec(location.hash)?.[1] ?? null;
}
