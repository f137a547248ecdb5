// Who sees what: login with a token, secrets that must not appear anywhere, and tenants that do not see the sessions of
// each other.

import type { Flow } from "../flow.ts";
import type { WatchedPage } from "../watched-page.ts";

import { button, seeEnd, seeText, startSession, talk, text, unauthorized } from "../flow.ts";
import { check, until } from "../watched-page.ts";

const operatorToken = "operator-token-that-is-long-0123456789";
const tokens = { red: "red-token-that-is-long-enough-0123456789", blue: "blue-token-that-is-long-enough-0123456789" };
const apiKey = "sk-ant-secret-key-0123456789-abcdefghij";

async function logIn({ page }: Pick<WatchedPage, "page">, token: string): Promise<void> {
  await page.getByLabel("Access token").fill(token);
  await page.keyboard.press("Enter");
}

/** The places of a page in which a secret could be. */
async function placesWith(watched: WatchedPage, secret: string): Promise<readonly string[]> {
  const { page, context, logged, requested } = watched;
  const stored = await page.evaluate<{ readonly local: string; readonly session: readonly string[] }>(
    "({ local: JSON.stringify(localStorage), session: Object.entries(sessionStorage).map(([name, value]) => `${name}=${value}`) })",
  );
  const fields = await page.evaluate<string>(
    '[...document.querySelectorAll("input, textarea, select")].map(({ value }) => value).join(" ")',
  );
  const cookies = JSON.stringify(await context.cookies());
  const places: { readonly [name: string]: string } = {
    "the document": await page.content(),
    "the title": await page.title(),
    "a field": fields,
    "the URL": page.url(),
    "the history": await page.evaluate<string>("JSON.stringify(history.state)"),
    "the local storage": stored.local,
    // The token of the reader is kept for the tab, in one entry, so that a reload does not ask again.
    "the session storage": stored.session.filter((entry) => !entry.startsWith("everturn-token=")).join(" "),
    "a cookie": cookies,
    "the console": logged.join("\n"),
    "the address of a request": requested.join("\n"),
  };
  return Object.entries(places).flatMap(([name, content]) => (content.includes(secret) ? [name] : []));
}

export const accessFlows: readonly Flow[] = [
  {
    name: "the printed link logs in once; its code and the token are nowhere in the page",
    run: async ({ open, start }) => {
      const server = await start({ database: "link.db", token: "file", environment: { EVERTURN_REQUEST_LOG: "on" } });
      const path = server.link.slice(server.studio().length);
      const code = path.replace("#code=", "");
      check(code.length > 40, `the link has no code: ${server.link}`);
      const watched = await open(path, server);
      const { page } = watched;
      await page.getByRole("link", { name: "Sessions", exact: true }).waitFor();
      check(page.url() === server.studio(), `the address is ${page.url()}`);
      const id = await startSession(page, "Hello by link");
      await seeText(page, "You said: Hello by link");
      await seeEnd(page);
      // Going back does not show the code again, and a reload keeps the login.
      await page.goBack();
      check(!page.url().includes("code"), `the history has ${page.url()}`);
      await page.goto(server.studio(`s/${id}`));
      await seeText(page, "You said: Hello by link");
      const token = (await page.evaluate<string | null>('sessionStorage.getItem("everturn-token")')) ?? "";
      check(token.length >= 43, "the tab has no token");
      for (const [name, secret] of Object.entries({ "the code": code, "the token": token })) {
        const places = await placesWith(watched, secret);
        check(places.length === 0, `${name} is in ${places.join(", ")}`);
      }
      // A second browser with the same link is asked for the token.
      const other = await open("overview", server);
      other.allowFailures(unauthorized);
      await other.page.getByLabel("Access token").waitFor();
      await other.page.goto(server.link);
      await other.page.getByRole("alert").getByText("This link was used before, or has expired.").waitFor();
      check(other.page.url() === server.studio(), `the address is ${other.page.url()}`);
      await logIn(other, token);
      await other.page.getByRole("link", { name: "Sessions", exact: true }).waitFor();
      other.problems.length = 0;
      // After a logout the page does not log in by itself.
      watched.allowFailures(unauthorized);
      await page.keyboard.press("Control+k");
      await page.getByRole("combobox").fill("Log out");
      await page.keyboard.press("Enter");
      await page.getByLabel("Access token").waitFor();
    },
  },
  {
    name: "a wrong and a right token; no secret in the page, its storage, its addresses and the console",
    run: async ({ open, start }) => {
      const server = await start({
        database: "secrets.db",
        token: operatorToken,
        environment: { ANTHROPIC_API_KEY: apiKey, EVERTURN_MODEL: "offline:demo" },
      });
      const watched = await open("", server);
      const { page } = watched;
      const wrong = "wrong-token-0123456789-0123456789";
      watched.allowFailures(unauthorized);
      await logIn(watched, wrong);
      await page.getByRole("alert").getByText("The server rejects this token.").waitFor();
      check((await page.evaluate<number>("sessionStorage.length")) === 0, "a wrong token is stored");
      await logIn(watched, operatorToken);
      await page.getByRole("link", { name: "Sessions", exact: true }).waitFor();
      // The first request has no token, and the second one a wrong one.
      check(
        watched.problems.every((problem) => unauthorized.test(problem)),
        watched.problems.join("\n"),
      );
      watched.problems.length = 0;
      watched.allowFailures(null);
      const id = await startSession(page, "Hello with secrets");
      await seeText(page, "You said: Hello with secrets");
      await seeEnd(page);
      for (const path of [`s/${id}`, "overview", "waiting", "playground"]) {
        await page.goto(server.studio(path));
        await page.getByRole("main").waitFor();
        await page.getByRole("heading", { level: 1 }).first().waitFor();
        for (const [name, secret] of Object.entries({
          "the token": operatorToken,
          "an API key": apiKey,
          "a wrong token": wrong,
        })) {
          const places = await placesWith(watched, secret);
          check(places.length === 0, `${name} is in ${places.join(", ")} of /${path}`);
        }
      }
      for (const path of ["engines", "server", "workers", "overview", "sessions"]) {
        const answer = await fetch(`${server.url}/${path}`, { headers: { authorization: `Bearer ${operatorToken}` } });
        const body = await answer.text();
        check(!body.includes(apiKey) && !body.includes(operatorToken), `GET /${path} shows a secret`);
      }
      watched.allowFailures(unauthorized);
      await page.keyboard.press("Control+k");
      await page.getByRole("combobox").fill("Log out");
      await page.keyboard.press("Enter");
      await page.getByLabel("Access token").waitFor();
      check(
        !(await page.evaluate<string>("JSON.stringify(sessionStorage)")).includes(operatorToken),
        "the token stays after the logout",
      );
    },
  },
  {
    name: "two tenants see different sessions",
    run: async ({ open, start }) => {
      const server = await start({ database: "tenants.db", token: `red:${tokens.red},blue:${tokens.blue}` });
      const ids: { [tenant: string]: string } = {};
      const pages: { [tenant: string]: WatchedPage } = {};
      for (const tenant of ["red", "blue"] as const) {
        const watched = await open("", server);
        watched.allowFailures(unauthorized);
        await logIn(watched, tokens[tenant]);
        await watched.page.getByRole("link", { name: "Sessions", exact: true }).waitFor();
        watched.problems.length = 0;
        watched.allowFailures(null);
        ids[tenant] = await startSession(watched.page, `Secret of ${tenant}`);
        await seeText(watched.page, `You said: Secret of ${tenant}`);
        await seeEnd(watched.page);
        pages[tenant] = watched;
      }
      for (const [own, other] of [
        ["red", "blue"],
        ["blue", "red"],
      ] as const) {
        const watched = pages[own];
        check(watched !== undefined, "there is no page");
        if (watched === undefined) return;
        const { page } = watched;
        await page.reload();
        await page.locator(".list-row", { hasText: `Secret of ${own}` }).waitFor();
        check((await page.locator(".list-row").count()) === 1, `${own} sees sessions of ${other}`);
        await page.keyboard.press("Control+k");
        await page.getByRole("combobox").fill(`Secret of ${other}`);
        await until(
          "the search of the other's words finds nothing",
          async () => text(page.getByRole("listbox")),
          (whole) => whole.includes("Nothing found"),
        );
        await page.keyboard.press("Escape");
        // A link of the other tenant says what is known: nothing.
        watched.allowFailures(/\b404\b/);
        await page.goto(server.studio(`s/${ids[other] ?? ""}`));
        await page.getByText("There is no such session").waitFor();
        watched.allowFailures(null);
        check(
          !(await text(page.locator("body"))).includes(`Secret of ${other}`),
          `${own} reads the session of ${other}`,
        );
        await page.goto(server.studio("overview"));
        await page.getByRole("heading", { level: 1 }).waitFor();
        check(!(await text(page.getByRole("main"))).includes(other), `the overview of ${own} names ${other}`);
      }
    },
  },
  {
    name: "an approval that is decided in one browser disappears in the other",
    run: async ({ open }) => {
      const { page } = await open();
      await page.locator("button.scenario", { hasText: "Approval" }).click();
      await button(talk(page), /^Approve$/).waitFor();
      const path = page.url().slice(page.url().indexOf("/studio/") + "/studio/".length);
      const { page: second } = await open(path);
      await button(talk(second), /^Approve$/).waitFor();
      await button(talk(page), /^Approve$/).click();
      await seeText(second, "The refund is paid: 189.00 EUR to the card.");
      await button(talk(second), /^Approve$/).waitFor({ state: "detached" });
    },
  },
];
