// The client of the server, with its token.
//
// `npm start` prints a link to this page with a code (`#code=…`) that is exchanged once for the token. The token is kept for the tab, under the name that the studio
// uses too. The server sends the modules of the package at `/everturn/`; the import map of the page names them.

import { createClient } from "everturn/client";

const tokenKey = "everturn-token";

/** Exchanges the code of the link for the token, and removes the code from the address bar. */
async function logIn() {
  const code = /^#code=([\w.-]+)$/.exec(location.hash)?.[1];
  if (code === undefined) return;
  history.replaceState(null, "", location.pathname);
  const response = await fetch("/login", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ code }),
  });
  const answer = await response.json();
  if (response.ok) sessionStorage.setItem(tokenKey, answer.token);
  else throw new Error("The link was used before, or has expired. The next start of the server prints another.");
}

/** Requests wait for it: a message that is sent while the code is exchanged needs the token. */
export const loggedIn = logIn();

export const client = createClient({
  url: location.origin,
  // A server without authentication ignores the token.
  token: () => loggedIn.catch(() => undefined).then(() => sessionStorage.getItem(tokenKey) ?? "none"),
});

/** What the page says about an error. */
export function errorText({ reason, message }) {
  return reason === "unauthorized" ? "Open the link that the server printed when it started." : message;
}
