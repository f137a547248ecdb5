// The studio over other hosts: Postgres as the storage of `everturn serve`, and a Node server of the user's own around
// `createHandler` and `serveStudio`, with sessions in memory, also below a path prefix.

import type { Flow } from "../flow.ts";

import { once } from "node:events";
import { createServer } from "node:http";

import { engine, fake } from "everturn";
import { createHandler } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { serveStudio } from "everturn/studio";

import { startPostgres } from "../../../../../lib/test/postgres-server.ts";
import { button, composer, seeEnd, seeText, serverDown, startScenario, startSession, talk, text } from "../flow.ts";
import { check, until } from "../watched-page.ts";

export const hostFlows: readonly Flow[] = [
  {
    name: "Postgres: sessions, live turns, search, overview, and a killed server",
    run: async ({ open, start, atEnd }) => {
      const postgres = await startPostgres();
      atEnd(async () => postgres.close());
      const server = await start({ database: await postgres.createDatabase() });
      const watched = await open("", server);
      const { page } = watched;
      await page.getByRole("banner").getByText("postgres").waitFor();
      await startSession(page, "A pelican in the database");
      await seeText(page, "You said: A pelican in the database");
      await seeEnd(page);
      await composer(page).fill("And a heron");
      await composer(page).press("Enter");
      await seeText(page, "You said: And a heron");
      await seeEnd(page);
      await page.locator(".list-row", { hasText: "A pelican in the database" }).waitFor();
      // Full-text search finds the word of the second message, and opens it.
      await page.keyboard.press("Control+k");
      await page.getByRole("combobox").fill("heron");
      await page.getByRole("option", { name: /heron/ }).first().waitFor();
      await page.keyboard.press("Enter");
      await page.locator("article.msg.sel", { hasText: "heron" }).waitFor();
      await page.getByRole("link", { name: "New session" }).click();
      await startScenario(page, "Approval");
      await button(talk(page), /^Approve$/).click();
      await seeText(page, "The refund is paid: 189.00 EUR to the card.");
      await seeEnd(page);
      await page.goto(server.studio("overview"));
      await until(
        "the overview counts turns",
        async () => text(page.getByRole("main")),
        (whole) => /scenarios/.test(whole) && /completed/.test(whole),
      );
      await page.goto(server.studio());
      await startScenario(page, "Long answer");
      await seeText(page, "The idea");
      watched.allowFailures(serverDown);
      await server.kill();
      await page.getByText("Reconnecting…").waitFor();
      await server.restart();
      await seeText(page, "shows this with a real process that is killed.", 120_000);
      await seeEnd(page);
    },
  },
  {
    name: "a Node server of the user's own, with createHandler, serveStudio and sessions in memory",
    run: async ({ open, atEnd }) => {
      const { url, close } = await ownServer({ api: "", studio: "/studio" });
      atEnd(close);
      const { page } = await open("", { url, studio: (path = "") => `${url}/studio/${path}` });
      await page.getByRole("banner").getByText("in memory").waitFor();
      check(
        (await page.locator("button.scenario").count()) === 0,
        "scenarios are shown that the server does not offer",
      );
      await startSession(page, "Hello");
      await seeText(page, "Hello from memory.");
      await seeEnd(page);
      // This storage cannot search: the palette still finds the session.
      await page.keyboard.press("Control+k");
      await page.getByRole("combobox").fill("Hello");
      await page.getByRole("option", { name: /Hello/ }).first().waitFor();
      await page.keyboard.press("Escape");
      await page.goto(`${url}/studio/overview`);
      await until(
        "the overview counts the turn",
        async () => text(page.getByRole("main")),
        (whole) => /completed/.test(whole),
      );
    },
  },
  ...(["/admin/agents", "/admin"] as const).map((visible): Flow => {
    const strips = visible === "/admin/agents";
    return {
      name: strips
        ? "below a path prefix that a proxy adds: every reference and request stays below it"
        : "below a path prefix of the user's own server: every reference and request stays below it",
      run: async ({ open, atEnd }) => {
        // A proxy removes the prefix, so the server knows nothing of it.
        const mounts = strips ? { api: "/api", studio: "/studio" } : { api: "/admin/api", studio: "/admin/studio" };
        const { url, close } = await ownServer(mounts, strips ? visible : "");
        atEnd(close);
        const studio = (path = "") => `${url}${visible}/studio/${path}`;
        const { page } = await open("", { url, studio });
        const strays: string[] = [];
        const kinds = new Set<string>();
        page.on("request", (request) => {
          const { pathname } = new URL(request.url());
          if (!pathname.startsWith(`${visible}/studio/`) && !pathname.startsWith(`${visible}/api/`))
            strays.push(pathname);
          kinds.add(request.resourceType());
        });
        await page.reload();
        await startSession(page, "Hello");
        await seeText(page, "Hello from memory.");
        await seeEnd(page);
        // A deep link, and modules that are loaded on demand from there.
        await page.reload();
        await seeText(page, "Hello from memory.");
        await page.getByRole("region", { name: "Timeline" }).waitFor();
        for (const link of ["Overview", "Playground", "Sessions"]) {
          await page.getByRole("banner").getByRole("link", { name: link, exact: true }).click();
          check(page.url().startsWith(studio()), `the link ${link} leaves the prefix: ${page.url()}`);
        }
        await page.goBack();
        await page.waitForURL(studio("playground"));
        const hrefs = await page
          .locator('a[href]:not([href^="#"])')
          .evaluateAll((links) => links.map((link) => link.getAttribute("href")));
        strays.push(...hrefs.filter((href) => href !== null && !href.startsWith(`${visible}/studio/`)).map(String));
        check(strays.length === 0, `requests and links outside of the prefix: ${strays.join(", ")}`);
        for (const kind of ["document", "script", "stylesheet", "font", "fetch"])
          check(kinds.has(kind), `nothing of the kind ${kind} was requested`);
      },
    };
  }),
];

/**
 * A server with sessions in memory, the API and the studio at the paths. Before it, like a reverse proxy, `removed` is
 * taken from the paths of requests, and requests without it are 404.
 */
async function ownServer(
  mounts: { readonly api: string; readonly studio: string },
  removed = "",
): Promise<{ readonly url: string; readonly close: () => Promise<void> }> {
  const script = [{ type: "text", text: "Hello from memory." }] as const;
  const sessions = runtime({
    host: memoryStorage(),
    engines: { default: engine({ adapter: fake({ script }), model: "fake:memory" }) },
  });
  const handler = createHandler({ sessions, auth: "none", inspect: true, basePath: mounts.api });
  const studio = serveStudio({ basePath: mounts.studio, api: mounts.api });
  const server = createServer((incoming, outgoing) => {
    const answer = async (): Promise<void> => {
      const { pathname, search } = new URL(incoming.url ?? "/", "http://127.0.0.1");
      if (!pathname.startsWith(`${removed}/`)) {
        outgoing.writeHead(404).end();
        return;
      }
      const path = pathname.slice(removed.length);
      const body: Uint8Array<ArrayBuffer>[] = [];
      for await (const chunk of incoming) body.push(new Uint8Array(Buffer.from(chunk)));
      const hasBody = incoming.method !== "GET" && incoming.method !== "HEAD" && incoming.method !== "DELETE";
      const headers = new Headers(
        Object.entries(incoming.headers).flatMap(([name, value]): [string, string][] =>
          typeof value === "string" ? [[name, value]] : [],
        ),
      );
      const aborting = new AbortController();
      outgoing.on("close", () => aborting.abort());
      const request = new Request(`http://${incoming.headers.host ?? ""}${path}${search}`, {
        method: incoming.method ?? "GET",
        headers,
        signal: aborting.signal,
        ...(hasBody ? { body: new Blob(body) } : {}),
      });
      const response = await (path.startsWith(mounts.studio) ? studio : handler)(request);
      outgoing.writeHead(response.status, Object.fromEntries(response.headers));
      outgoing.flushHeaders();
      for await (const chunk of response.body ?? []) outgoing.write(chunk);
      outgoing.end();
    };
    answer().catch((error: unknown) => outgoing.destroy(error instanceof Error ? error : new Error(String(error))));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  return {
    url: `http://127.0.0.1:${typeof address === "object" ? (address?.port ?? 0) : 0}`,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await sessions.close();
    },
  };
}
