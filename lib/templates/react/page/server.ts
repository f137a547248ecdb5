// The server as the page reaches it. `npm start` prints a link to this page with a code (`#code=…`), which is exchanged
// once for the token. The token is kept for the tab, under the name that the studio uses too.

const tokenKey = "everturn-token";

async function logIn(): Promise<void> {
  const code = /^#code=([\w.-]+)$/.exec(location.hash)?.[1];
  if (code === undefined) return;
  history.replaceState(null, "", location.pathname);
  const body = JSON.stringify({ code });
  const response = await fetch("/login", { method: "POST", headers: { "content-type": "application/json" }, body });
  if (!response.ok) throw new Error("The link was used before. The next start of the server prints another.");
  const { token }: { token: string } = await response.json();
  sessionStorage.setItem(tokenKey, token);
}

const loggedIn = logIn().catch(() => undefined);

/** The options of `createClient` and `chatTransport`. A server without authentication ignores the token. */
export const server = {
  url: "/",
  token: () => loggedIn.then(() => sessionStorage.getItem(tokenKey) ?? "none"),
};

/** The studio, which the same server has. */
export const studio = "/studio/";
