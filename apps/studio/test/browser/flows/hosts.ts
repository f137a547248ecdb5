// The studio over other hosts: Postgres as the storage of `everturn serve`, and a Node server of the user's own around
// `createHandler`, with sessions in memory.

import type { Flow } from "../flow.ts";

import { once } from "node:events";
import { readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join } from "node:path";

import { engine, fake } from "everturn";
import { createHandler } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";

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
    name: "a Node server of the user's own, with createHandler and sessions in memory",
    run: async ({ open, atEnd }) => {
      const script = [{ type: "text", text: "Hello from memory." }] as const;
      const sessions = runtime({
        host: memoryStorage(),
        engines: { default: engine({ adapter: fake({ script }), model: "fake:memory" }) },
      });
      const handler = createHandler({ sessions, auth: "none", inspect: true });
      const studio = join(import.meta.dirname, "../../../../../lib/studio");
      const server = createServer((incoming, outgoing) => {
        const answer = async (): Promise<void> => {
          const { pathname, search } = new URL(incoming.url ?? "/", "http://127.0.0.1");
          if (pathname.startsWith("/studio/")) {
            const path = join(studio, pathname.slice("/studio/".length));
            const file = path.startsWith(studio) && isFile(path) ? path : join(studio, "index.html");
            outgoing.setHeader("content-type", types[extname(file)] ?? "application/octet-stream");
            outgoing.end(readFileSync(file));
            return;
          }
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
          const response = await handler(
            new Request(`http://${incoming.headers.host ?? ""}${pathname}${search}`, {
              method: incoming.method ?? "GET",
              headers,
              signal: aborting.signal,
              ...(hasBody ? { body: new Blob(body) } : {}),
            }),
          );
          outgoing.writeHead(response.status, Object.fromEntries(response.headers));
          outgoing.flushHeaders();
          for await (const chunk of response.body ?? []) outgoing.write(chunk);
          outgoing.end();
        };
        answer().catch((error: unknown) => outgoing.destroy(error instanceof Error ? error : new Error(String(error))));
      });
      server.listen(0, "127.0.0.1");
      await once(server, "listening");
      atEnd(async () => {
        server.closeAllConnections();
        server.close();
        await sessions.close();
      });
      const address = server.address();
      const url = `http://127.0.0.1:${typeof address === "object" ? (address?.port ?? 0) : 0}`;
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
];

const types: { readonly [extension: string]: string } = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
  ".woff2": "font/woff2",
};

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
}
