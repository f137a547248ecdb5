// Every view of the studio with content worth looking at: for the accessibility check and for screenshots. One server
// plays the scenarios once; the views are then opened in each theme and width.

import type { WatchedPage } from "./watched-page.ts";
import type { Page } from "playwright-core";

import { writeFileSync } from "node:fs";
import { join } from "node:path";

import { contextViews } from "./context-views.ts";
import { failedSession, parkedSession, writeDayOfWork } from "./seed.ts";
import { folder, Server } from "./server.ts";
import { until } from "./watched-page.ts";

export type View = {
  readonly name: string;
  /** The path below /studio/. */
  readonly path: string;
  /** Makes the page ready: what has to be clicked, and what has to be visible. */
  readonly prepare: (page: Page) => Promise<void>;
  /** `null`: the server with the scenarios. */
  readonly server?: Server;
};

export type Views = { readonly server: Server; readonly views: readonly View[]; readonly close: () => Promise<void> };

type Summary = { readonly id: string; readonly turnStatus: string | null };

const extraArguments = {
  amount: 5,
  to: "DE00 \u202E99 0000\u202C",
  note: "rent for November",
  order: { id: "A-1", payTo: "ATTACKER", amountOverride: 99_999_900 },
  lines: Array.from({ length: 87 }, (_, index) => `row ${index + 1}`),
};

/** A formula in a line, one of its own, a table and a list of tasks. */
const formattedText = [
  "The roots of $ax^2 + bx + c$ are $x = \\frac{-b \\pm \\sqrt{b^2 - 4ac}}{2a}$, and a consultation costs $5, not $10.",
  "\\[\n\\begin{pmatrix} \\cos\\theta & -\\sin\\theta \\\\ \\sin\\theta & \\cos\\theta \\end{pmatrix}\n\\]",
  "$$\\sum_{n=1}^{\\infty} \\frac{1}{n^2} = \\frac{\\pi^2}{6} \\qquad \\int_0^1 x^2 \\, dx = \\tfrac{1}{3}$$",
  "| region | turns | cost |\n| --- | ---: | ---: |\n| Lisbon | 1,204 | $31.20 |\n| Oslo | 880 | $19.75 |",
  "- [x] tables\n- [x] formulas\n- [ ] diagrams",
].join("\n\n");

const visible = (selector: string) => async (page: Page) => page.locator(selector).first().waitFor();
const bars = visible("[role='option']");

/**
 * Plays the scenarios, and lists the views. `part`: begins the names of the databases, which parts of a run do not
 * share.
 */
export async function prepareViews(part: string): Promise<Views> {
  await writeDayOfWork(`${part}-views.db`);
  const server = await Server.start({ database: `${part}-views.db` });
  // Its words arrive slowly, so that turns still run when a picture is taken.
  const slow = await Server.start({ database: `${part}-slow.db`, paceMs: 400 });
  // Its tools begin after a few seconds, and run long enough for a page that a busy machine draws late.
  const paced = await Server.start({ database: `${part}-paced.db`, paceMs: 100 });
  const empty = await Server.start({ database: `${part}-empty.db` });
  const guarded = await Server.start({
    database: `${part}-guarded.db`,
    token: "a-token-that-is-long-enough-0123456789",
  });
  const tools = await Server.start({
    database: `${part}-tools.db`,
    config: join(import.meta.dirname, "tools.config.ts"),
  });
  const context = await Server.start({
    database: `${part}-context.db`,
    config: join(import.meta.dirname, "context.config.ts"),
  });
  const post = async (
    path: string,
    body: object = {},
    { url } = server,
  ): Promise<{ readonly sessionId: string; readonly id: string }> => {
    const response = await fetch(`${url}/${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    if (!response.ok) throw new Error(`POST /${path} answered ${response.status}: ${await response.text()}`);
    const answer: { readonly sessionId: string; readonly id: string } = JSON.parse(await response.text());
    return answer;
  };
  const scenario = async (name: string): Promise<string> => (await post(`scenarios/${name}`)).sessionId;
  const names = ["retries", "child-agents", "question", "parallel-tools", "long-answer", "crash", "approval"];
  const ids = new Map<string, string>();
  for (const name of names) ids.set(name, await scenario(name));
  await until(
    "the scenarios have ended or wait",
    async () => {
      const page: { readonly items: readonly Summary[] } = JSON.parse(
        await (await fetch(`${server.url}/sessions?limit=100`)).text(),
      );
      return page.items.filter(({ turnStatus }) => turnStatus !== null && turnStatus !== "parked").map(({ id }) => id);
    },
    (running) => running.length === 0,
    120_000,
  );
  // Calls whose arguments have to be looked at: those of a child agent, and some that the schema does not name, long
  // ones and invisible characters.
  const nested = await post("sessions", { input: "Use summarize_mail" }, tools);
  const extra = await post("sessions", { input: `Use pay ${JSON.stringify(extraArguments)}` }, tools);
  const formatted = await post("sessions", { input: `====\n${formattedText}\n====` }, tools);
  const of = (name: string): string => ids.get(name) ?? "";
  const forked = await post(`sessions/${of("long-answer")}/fork`, { at: 1 });
  const turns: { readonly items: readonly { readonly turnId: string }[] } = JSON.parse(
    await (await fetch(`${server.url}/sessions/${of("crash")}/turns`)).text(),
  );
  const record = await fetch(`${server.url}/sessions/${of("crash")}/turns/${turns.items[0]?.turnId ?? ""}/record`);
  const file = join(folder, "replay.json");
  writeFileSync(file, await record.text());
  const session = (name: string, query = ""): string => `s/${of(name)}${query}`;
  const views: readonly View[] = [
    ...(await contextViews(context)),
    { name: "start", path: "", prepare: visible(".scenario"), server: empty },
    { name: "sessions", path: "", prepare: visible(".list-row") },
    { name: "sessions-filtered", path: "?status=waiting&find=refund&changed=7d", prepare: visible(".list-row") },
    { name: "login", path: "", prepare: visible("form.gate-body"), server: guarded },
    { name: "approval", path: session("approval"), prepare: both(bars, visible(".approval .everturn-button.primary")) },
    {
      name: "approval-edited",
      path: session("approval"),
      prepare: async (page) => {
        await bars(page);
        await page.getByLabel(/^amount/).fill("150");
        await page.locator("article.msg").last().scrollIntoViewIfNeeded();
      },
    },
    {
      name: "approval-nested",
      path: `s/${nested.sessionId}`,
      prepare: both(bars, visible(".approval .everturn-button.primary")),
      server: tools,
    },
    {
      name: "approval-arguments",
      path: `s/${extra.sessionId}`,
      prepare: both(bars, visible(".approval .everturn-button.primary")),
      server: tools,
    },
    {
      name: "waiting-calls",
      path: "waiting",
      prepare: visible(".inbox-row"),
      server: tools,
    },
    {
      name: "waiting-selected",
      path: "waiting",
      prepare: async (page) => {
        await page.locator(`.inbox-row[href*="session=${of("approval")}"]`).click();
        await page.locator(".inbox-call .everturn-approval button").first().waitFor();
      },
    },
    {
      name: "waiting-question",
      path: "waiting",
      prepare: async (page) => {
        await page.locator(`.inbox-row[href*="session=${of("question")}"]`).click();
        await page.locator(".inbox-call .card").waitFor();
      },
    },
    { name: "question", path: session("question"), prepare: both(bars, visible(".msg")) },
    { name: "parallel-tools", path: session("parallel-tools"), prepare: both(bars, visible(".tool-card")) },
    {
      name: "effect",
      path: session("parallel-tools"),
      prepare: async (page) => {
        await bars(page);
        await page.locator(".tool-card button.name").first().click();
        await page.locator(".insp-tabs").waitFor({ state: "attached" });
      },
    },
    { name: "crash", path: session("crash"), prepare: both(bars, visible(".msg")) },
    { name: "child-agents", path: session("child-agents"), prepare: both(bars, visible(".tool-card")) },
    { name: "long-answer", path: session("long-answer"), prepare: both(bars, visible(".md")) },
    { name: "retries", path: session("retries"), prepare: both(bars, visible(".tool-card")) },
    { name: "failed", path: `s/${failedSession}`, prepare: both(bars, visible(".msg")) },
    { name: "parked", path: `s/${parkedSession}`, prepare: both(bars, visible(".msg")) },
    {
      name: "live-child",
      path: "",
      prepare: async (page) => {
        const { sessionId } = await post("sessions", { input: "Use delegate_hold" }, tools);
        await page.goto(tools.studio(`s/${sessionId}`));
        await page.locator(".child-link").click();
        await page.locator("[data-depth='1'] .everturn-tl-bar").nth(1).waitFor();
      },
      server: tools,
    },
    { name: "formatted", path: `s/${formatted.sessionId}`, prepare: visible("math mtable"), server: tools },
    {
      name: "live",
      path: "",
      prepare: async (page) => {
        // Each picture has a turn of its own, because a turn ends.
        const { sessionId } = await post("scenarios/parallel-tools", {}, slow);
        await page.goto(slow.studio(`s/${sessionId}`));
        await page.locator(".msg.open .md p").first().waitFor();
        await bars(page);
      },
      server: slow,
    },
    {
      name: "live-tools",
      path: "",
      prepare: async (page) => {
        const { sessionId } = await post("scenarios/parallel-tools", {}, paced);
        await page.goto(paced.studio(`s/${sessionId}`));
        await page.locator(".progress-row").first().waitFor();
      },
      server: paced,
    },
    {
      name: "workers",
      path: "overview",
      prepare: async (page) => {
        await post("scenarios/long-answer", {}, slow);
        await page.locator(".worker summary").first().click();
        await page.locator(".worker li").first().scrollIntoViewIfNeeded();
      },
      server: slow,
    },
    {
      name: "search",
      path: session("parallel-tools"),
      prepare: async (page) => {
        await bars(page);
        await page.keyboard.press("Control+k");
        await page.locator(".palette-input").fill("refund");
        await page.locator(".palette mark").first().waitFor();
      },
    },
    {
      name: "hover",
      path: session("approval"),
      prepare: async (page) => {
        await bars(page);
        await page.locator(".everturn-tl-bar[data-kind='model']").first().hover();
        await page.locator(".everturn-tl-card").waitFor();
      },
    },
    {
      name: "scrubbed",
      path: session("crash"),
      prepare: async (page) => {
        await bars(page);
        for (let commit = 0; commit < 3; commit += 1) await page.keyboard.press("ArrowLeft");
        await page.locator(".past").waitFor();
      },
    },
    {
      name: "journal-rows",
      path: session("crash"),
      prepare: async (page) => {
        await bars(page);
        await page.getByRole("button", { name: "rows" }).click();
        await page.locator(".everturn-tl-row").first().waitFor();
      },
    },
    {
      name: "inspector-turn",
      path: session("crash"),
      prepare: async (page) => {
        await bars(page);
        // On a narrow screen the inspector is opened by a button.
        if ((page.viewportSize()?.width ?? 0) <= 1100) await page.getByRole("button", { name: "Details" }).click();
        await page.locator(".insp-claims").waitFor();
      },
    },
    {
      name: "loading",
      path: "overview",
      prepare: async (page) => {
        await page.route("**/sessions**", () => undefined);
        await page.goto(server.studio(session("crash")));
        await page.locator(".loading").waitFor();
      },
    },
    {
      name: "no-answer",
      path: "",
      prepare: async (page) => {
        await page.route("**/server", (route) => route.abort());
        await page.reload();
        await page.getByRole("alert").waitFor();
      },
    },
    { name: "not-found", path: "s/no-such-session", prepare: visible(".notice") },
    { name: "waiting", path: "waiting", prepare: visible("main h1") },
    { name: "overview", path: "overview", prepare: visible("main svg, main table") },
    { name: "playground", path: "playground", prepare: visible(".column") },
    {
      name: "compare",
      path: `compare?left=${of("long-answer")}&right=${forked.id}`,
      prepare: visible(".compare-sides"),
    },
    {
      name: "replay",
      path: "replay",
      prepare: async (page) => {
        await page.locator("input[type=file]").setInputFiles(file);
        await bars(page);
      },
    },
    { name: "replay-empty", path: "replay", prepare: visible(".replay-start") },
    {
      name: "palette",
      path: session("parallel-tools"),
      prepare: async (page) => {
        await bars(page);
        await page.keyboard.press("Control+k");
        await page.getByRole("option").first().waitFor();
        await page.locator(".palette").waitFor();
      },
    },
    {
      name: "keyboard-help",
      path: session("parallel-tools"),
      prepare: async (page) => {
        await bars(page);
        await page.keyboard.press("?");
        await page.getByRole("dialog").waitFor();
      },
    },
    {
      name: "confirm",
      path: session("approval"),
      prepare: async (page) => {
        await bars(page);
        await page.getByRole("button", { name: "Actions on the session" }).click();
        await page.getByRole("menuitem", { name: /Delete/ }).click();
        await page.getByRole("dialog").waitFor();
      },
    },
  ];
  const close = async (): Promise<void> => {
    for (const one of [server, slow, paced, empty, guarded, tools, context]) await one.kill();
  };
  return { server, views, close };
}

function both(first: View["prepare"], second: View["prepare"]): View["prepare"] {
  return async (page) => {
    await first(page);
    await second(page);
  };
}

/**
 * Opens one view after the other, or those that `only` names, and calls `use`. Returns the faults: a view that does not appear, and what the page
 * must not do.
 */
export async function eachView(
  { views, server }: Views,
  open: (view: View, server: Server) => Promise<WatchedPage>,
  use: (view: View, page: Page) => Promise<readonly string[]>,
  only = "",
): Promise<readonly string[]> {
  const faults: string[] = [];
  for (const view of views) {
    if (only !== "" && !only.split(",").includes(view.name)) continue;
    const watched = await open(view, view.server ?? server);
    // A missing session and a missing token are answered with 404 and 401.
    if (view.name === "not-found" || view.name === "login") watched.allowFailures(/\b40[14]\b/);
    if (view.name === "no-answer") watched.allowFailures(/ERR_FAILED/);
    try {
      await watched.page.goto((view.server ?? server).studio(view.path));
      await view.prepare(watched.page);
      await settle(watched.page);
      faults.push(...(await use(view, watched.page)));
    } catch (error) {
      faults.push(`${view.name}: ${error instanceof Error ? error.message : String(error)}`);
    }
    faults.push(...(await watched.close()).map((problem) => `${view.name}: ${problem}`));
  }
  return faults;
}

/**
 * Waits until fonts are loaded, requests have ended and two frames are drawn. Polling and live streams never end, so
 * this does not wait for an idle network.
 */
async function settle(page: Page): Promise<void> {
  await page.evaluate("document.fonts.ready.then(() => true)");
  await new Promise((resolve) => setTimeout(resolve, 600));
  await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))");
}
