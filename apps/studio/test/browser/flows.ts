// The flows of a user, against a real server: start a scenario, watch, answer, approve, deny, stop, steer, fork,
// compare, reload, a server that is killed, two browsers, login, links, keyboard, deletion, playground, overview,
// replay files. In each flow the page must log no error, fail no request and contact no other origin.

import type { Flow } from "./flow.ts";

import { readFileSync } from "node:fs";
import { join } from "node:path";

import {
  button,
  composer,
  occurrences,
  read,
  sameWords,
  seeEnd,
  seeText,
  serverDown,
  startScenario,
  startSession,
  talk,
  text,
  unauthorized,
} from "./flow.ts";
import { folder, Server } from "./server.ts";
import { check, until } from "./watched-page.ts";

export const commonFlows: readonly Flow[] = [
  {
    name: "open, start a session, send a message",
    run: async ({ open }) => {
      const { page } = await open();
      await startSession(page, "Hello from a browser");
      await seeText(page, "You said: Hello from a browser");
      await seeEnd(page);
      await composer(page).fill("And a second message");
      await composer(page).press("Enter");
      await seeText(page, "You said: And a second message");
      await seeEnd(page);
      check((await page.title()).includes("Hello from a browser"), `the title is ${await page.title()}`);
    },
  },
  {
    name: "watch a live turn: the text grows",
    run: async ({ open }) => {
      const { page } = await open();
      await startScenario(page, "Long answer");
      const lengths = new Set<number>();
      await until(
        "the text grows",
        async () => {
          lengths.add((await text(talk(page))).length);
          return lengths.size;
        },
        (size) => size >= 8,
      );
      await seeText(page, "shows this with a real process that is killed.");
      await seeEnd(page);
      await page.locator(".md table").waitFor();
      await page.locator("pre code span[class*='hljs']").first().waitFor();
    },
  },
  {
    name: "answer a question",
    run: async ({ open }) => {
      const { page } = await open();
      await startScenario(page, "Question");
      await button(talk(page), "Kumo Ramen").click();
      await seeText(page, "The table is booked");
      check((await text(talk(page))).includes("Kumo Ramen"), "the booking does not name the restaurant");
    },
  },
  {
    name: "approve with edited arguments",
    run: async ({ open, server }) => {
      const { page } = await open();
      const id = await startScenario(page, "Approval");
      const amount = talk(page).getByLabel(/^amount/);
      await amount.fill("120.5");
      await talk(page).locator("s.was", { hasText: "189" }).waitFor();
      await talk(page)
        .getByLabel(/^currency/)
        .selectOption({ label: "USD" });
      await button(talk(page), "Approve edited").click();
      await seeText(page, "The refund is paid: 120.50 USD to the card.");
      const messages = await read(server, `sessions/${id}/messages`);
      check(messages.includes("120.50 USD to the card"), "the tool did not run with the edited arguments");
    },
  },
  {
    name: "approve with the keyboard",
    run: async ({ open }) => {
      const { page } = await open();
      await startScenario(page, "Approval");
      await button(talk(page), /^Approve$/).focus();
      await page.keyboard.press("Enter");
      await seeText(page, "The refund is paid: 189.00 EUR to the card.");
    },
  },
  {
    name: "deny with a reason",
    run: async ({ open, server }) => {
      const { page } = await open();
      const id = await startScenario(page, "Approval");
      await button(talk(page), "Deny with reason…").focus();
      await page.keyboard.press("Enter");
      await page.getByLabel("Reason, which the model reads").fill("The photo is missing");
      await page.keyboard.press("Enter");
      await seeText(page, "nothing has been paid");
      check(
        (await read(server, `sessions/${id}/messages`)).includes("The photo is missing"),
        "the reason is not stored",
      );
      const card = talk(page).locator(".tool-card", { hasText: "issue_refund" });
      await until(
        "the card says that the call was denied",
        async () => text(card.first()),
        (whole) => whole.includes("denied") && !whole.includes("failed"),
      );
    },
  },
  {
    name: "stop a turn",
    run: async ({ open, server }) => {
      const { page } = await open();
      const id = await startScenario(page, "Long answer");
      await seeText(page, "The idea");
      await button(page, /^Stop$/).click();
      await button(page, "Stop the turn").click();
      await seeEnd(page);
      await seeText(page, "The turn was stopped");
      check((await read(server, `sessions/${id}`)).includes('"cancelled"'), "the turn is not recorded as cancelled");
    },
  },
  {
    name: "steer a running turn",
    run: async ({ open, server }) => {
      const { page } = await open();
      const id = await startScenario(page, "Parallel tools");
      await page.locator(".tool-card").first().waitFor();
      await page.keyboard.press("s");
      await page.keyboard.type("Prefer a sunny city");
      await page.keyboard.press("Enter");
      await seeText(page, "Prefer a sunny city");
      await seeEnd(page);
      const messages = await read(server, `sessions/${id}/messages`);
      check(occurrences(messages, "Prefer a sunny city") >= 1, "the message is not in the session");
      const turns = await read(server, `sessions/${id}/turns`);
      check(occurrences(turns, '"turnId"') === 1, "the message started another turn");
    },
  },
  {
    name: "compare two sessions of the list",
    run: async ({ open }) => {
      const { page } = await open();
      for (const name of ["left", "right"]) {
        await startSession(page, `The ${name} side`);
        await seeEnd(page);
        await page.getByRole("link", { name: "New session" }).click();
      }
      await button(page, "Select sessions").click();
      for (const name of ["left", "right"]) await page.getByLabel(`Select The ${name} side`).check();
      await button(page, /^Compare$/).click();
      await page.waitForURL(/\/studio\/compare/);
      await until(
        "both sides are shown",
        async () => text(page.getByRole("main")),
        (whole) => whole.includes("You said: The left side") && whole.includes("You said: The right side"),
      );
    },
  },
  {
    name: "fork from a message and compare",
    run: async ({ open }) => {
      const { page } = await open();
      const original = await startSession(page, "First message");
      await seeEnd(page);
      await composer(page).fill("Second message");
      await composer(page).press("Enter");
      await seeText(page, "You said: Second message");
      await seeEnd(page);
      await talk(page).getByRole("article").nth(1).hover();
      await button(page, "Actions on message 2").click();
      await page.getByRole("menuitem", { name: "Fork from here" }).click();
      await page.waitForURL((url) => !url.pathname.includes(original));
      await until(
        "the fork ends with the message",
        async () => text(talk(page)),
        (whole) => whole.includes("First message") && !whole.includes("Second message"),
      );
      await composer(page).fill("Another second message");
      await composer(page).press("Enter");
      await seeText(page, "You said: Another second message");
      await page.getByRole("link", { name: "Compare", exact: true }).click();
      await page.waitForURL(/\/studio\/compare/);
      await until(
        "both sides are shown",
        async () => text(page.getByRole("main")),
        (whole) => whole.includes("You said: Second message") && whole.includes("You said: Another second message"),
      );
    },
  },
  {
    name: "reload in the middle of a turn",
    run: async ({ open, server }) => {
      const { page } = await open();
      const id = await startScenario(page, "Long answer");
      await seeText(page, "The steps of a turn");
      await page.reload();
      await seeText(page, "The steps of a turn");
      await button(page, /^Stop$/).waitFor();
      await seeText(page, "shows this with a real process that is killed.");
      await seeEnd(page);
      const whole = await text(talk(page));
      for (const part of ["The idea", "The steps of a turn", "What a crash leaves behind", "An example"])
        check(occurrences(whole, part) === 1, `“${part}” is shown ${occurrences(whole, part)} times`);
      await page.reload();
      await seeText(page, "shows this with a real process that is killed.");
      const after = await text(talk(page));
      check(sameWords(after, whole), `a second reload shows another text:\n${after}\n---\n${whole}`);
      check((await read(server, `sessions/${id}/messages`)).includes("killed."), "the reply is not stored");
    },
  },
  {
    name: "a process of the turn is killed, and another one takes over",
    run: async ({ open, server }) => {
      const { page } = await open();
      const id = await startScenario(page, "Crash and recovery");
      // While the turn runs the mark of the crash already names the process that died, and the one that went on.
      const mark = page.locator(".everturn-tl-crash span[title]").first();
      await mark.waitFor({ timeout: 60_000 });
      const { claims } = await until(
        "the turn has two claims",
        async () => timelineOf(server, id),
        (timeline) => timeline.claims.length === 2,
      );
      const [died = "", continued = ""] = claims.map(({ owner }) => owner);
      const named = new RegExp(`^${died} died\\. ${continued} went on`);
      await until(
        "the mark names both processes",
        async () => (await mark.getAttribute("title")) ?? "",
        (title) => named.test(title),
        10_000,
      );
      check(await button(page, /^Stop$/).isVisible(), "the turn had ended before the mark was read");
      await seeText(page, "Thank you to the 14 people", 90_000);
      await seeEnd(page);
      check(named.test((await mark.getAttribute("title")) ?? ""), "the mark names other processes after the end");
      // What the crash interrupted is not active until the takeover, and the heading says how long that was.
      const { turn, effects } = await timelineOf(server, id);
      const total = Math.max(...effects.map(({ endedAt }) => endedAt ?? 0)) - turn.acceptedAt;
      const lost = effects
        .flatMap(({ discarded }) => discarded)
        .reduce((sum, { startedAt, endedAt }) => sum + (endedAt ?? 0) - (startedAt ?? 0), 0);
      const heading = await until(
        "the heading says what was lost",
        async () => page.locator(".everturn-tl-totals").innerText(),
        (shown) => shown.includes("lost"),
        10_000,
      );
      const [, activeSeconds = "", lostSeconds = ""] = /^([\d.]+) s active · ([\d.]+) s lost/.exec(heading) ?? [];
      check(lost > 500 && Math.abs(Number(lostSeconds) * 1000 - lost) <= 100, `${heading}: ${lost} ms were lost`);
      check(Number(activeSeconds) * 1000 <= total - lost + 100, `${heading}: the turn took ${total} ms`);
      const whole = await text(talk(page));
      check(occurrences(whole, "Thank you to the 14 people") === 1, "the reply is shown twice");
      check(/died|crash|took over|continued/.test(whole), `nothing says that a process died: ${whole}`);
      await page.locator(".everturn-tl-crash, [class*='crash']").first().waitFor();
    },
  },
  {
    name: "kill the server, restart it, and see the turn recover",
    run: async ({ open, start }) => {
      const first = await start({ database: "killed.db" });
      const watched = await open("", first);
      const { page } = watched;
      await startScenario(page, "Long answer");
      await seeText(page, "The steps of a turn");
      watched.allowFailures(serverDown);
      await first.kill();
      await page.getByText("Reconnecting…").waitFor();
      await first.restart();
      await page.getByText("Reconnecting…").waitFor({ state: "detached", timeout: 60_000 });
      await seeText(page, "shows this with a real process that is killed.", 120_000);
      await seeEnd(page);
      watched.allowFailures(null);
      const whole = await text(talk(page));
      check(occurrences(whole, "shows this with a real process") === 1, "the reply is shown twice");
    },
  },
  {
    name: "a second browser sees the same turn live",
    run: async ({ open }) => {
      const { page } = await open();
      const id = await startScenario(page, "Long answer");
      await seeText(page, "The idea");
      const { page: second } = await open(`s/${id}`);
      await seeText(second, "The idea");
      await button(second, /^Stop$/).waitFor();
      await seeText(second, "shows this with a real process that is killed.");
      await seeEnd(second);
      await seeEnd(page);
      check(sameWords(await text(talk(page)), await text(talk(second))), "the two browsers show different texts");
    },
  },
  {
    name: "log in with a token, and log out",
    run: async ({ open }) => {
      const token = "a-token-that-is-long-enough-0123456789";
      const guarded = await Server.start({ database: "token.db", token });
      try {
        const watched = await open("", guarded);
        const { page } = watched;
        // The page asks without a token first, and then with a wrong one.
        const field = page.getByLabel("Access token");
        await field.waitFor();
        check(
          watched.problems.every((problem) => unauthorized.test(problem)),
          watched.problems.join("\n"),
        );
        watched.problems.length = 0;
        watched.allowFailures(unauthorized);
        await field.fill("wrong-token-0123456789-0123456789");
        await page.keyboard.press("Enter");
        await page.getByText("The server rejects this token.").waitFor();
        await field.fill(token);
        await page.keyboard.press("Enter");
        await page.getByRole("link", { name: "Sessions", exact: true }).waitFor();
        watched.allowFailures(null);
        await startSession(page, "Hello with a token");
        await seeText(page, "You said: Hello with a token");
        await seeEnd(page);
        await page.reload();
        await seeText(page, "You said: Hello with a token");
        check(!(await page.content()).includes(token), "the token is in the document");
        check(!page.url().includes(token), "the token is in the URL");
        watched.allowFailures(unauthorized);
        await page.keyboard.press("Control+k");
        await page.getByRole("combobox").fill("Log out");
        await page.keyboard.press("Enter");
        await field.waitFor();
        await watched.context.close();
      } finally {
        await guarded.kill();
      }
    },
  },
  {
    name: "links to a message and to an effect",
    run: async ({ open, server }) => {
      const { page } = await open();
      const id = await startScenario(page, "Parallel tools");
      await seeText(page, "The room Belém is free");
      await seeEnd(page);
      await talk(page).locator(".tool-card button.name").first().click();
      await page.waitForURL(/effect=\d+/);
      const link = page.url();
      await page.getByRole("heading", { name: /get_weather/ }).waitFor();
      const { page: second } = await open(link.slice(server.studio().length));
      await second.getByRole("heading", { name: /get_weather/ }).waitFor();
      await second.locator(".tool-card.sel").waitFor();
      const { page: third } = await open(`s/${id}?message=0`);
      await third.locator("article.msg.sel", { hasText: "Which of our offices" }).waitFor();
    },
  },
  {
    name: "the timeline is scrubbed, and the conversation shows the past",
    run: async ({ open }) => {
      const { page } = await open();
      await startScenario(page, "Approval");
      await button(talk(page), /^Approve$/).waitFor();
      await page.keyboard.press("ArrowLeft");
      await page.waitForURL(/at=\d+/);
      await page.keyboard.press("ArrowLeft");
      await page.keyboard.press("ArrowLeft");
      await seeText(page, "As it was");
      await button(talk(page), "Back to now").click();
      await button(talk(page), /^Approve$/).waitFor();
      // The first bar may be the time in the queue, which is no effect.
      const bar = page
        .getByRole("region", { name: "Timeline" })
        .getByRole("option")
        .filter({ hasText: "step 1" })
        .first();
      await bar.click();
      await page.waitForURL(/effect=\d+/);
      await button(page, "Zoom in").click();
      await button(page, "Fit").click();
      await button(page, "critical path").click();
    },
  },
  {
    name: "palette and keyboard",
    run: async ({ open }) => {
      const { page } = await open();
      await startSession(page, "Find me with the palette");
      await seeEnd(page);
      await page.keyboard.press("Control+k");
      await page.getByRole("combobox").fill("overview");
      await page.keyboard.press("Enter");
      await page.waitForURL(/\/studio\/overview/);
      await page.keyboard.press("/");
      await page.getByRole("combobox").fill("Find me with");
      await page
        .getByRole("option", { name: /Find me with the palette/ })
        .first()
        .waitFor();
      await page.keyboard.press("Enter");
      await page.waitForURL(/\/studio\/s\//);
      await seeText(page, "Find me with the palette");
      await page.keyboard.press("?");
      await page.getByRole("dialog", { name: "Keyboard" }).waitFor();
      await page.keyboard.press("Escape");
      await page.getByRole("dialog").waitFor({ state: "detached" });
      await page.keyboard.press("j");
      await page.locator("article.msg.sel").waitFor();
      await page.keyboard.press("Escape");
      await page.locator("article.msg.sel").waitFor({ state: "detached" });
      await page.keyboard.press("]");
      await page.getByRole("complementary", { name: "Inspector" }).waitFor({ state: "detached" });
      await page.keyboard.press("]");
      await page.getByRole("complementary", { name: "Inspector" }).waitFor();
    },
  },
  {
    name: "delete several sessions after a confirmation",
    run: async ({ open }) => {
      const { page } = await open();
      const ids: string[] = [];
      for (const name of ["one", "two"]) {
        ids.push(await startSession(page, `To be deleted ${name}`));
        await seeEnd(page);
        await page.getByRole("link", { name: "New session" }).click();
      }
      await button(page, "Select sessions").click();
      for (const name of ["one", "two"]) await page.getByLabel(`Select To be deleted ${name}`).check();
      await button(page, "Delete…").click();
      const dialog = page.getByRole("dialog", { name: "Delete 2 sessions?" });
      await dialog.getByRole("button", { name: "Keep" }).click();
      await page.locator(".list-row", { hasText: "To be deleted one" }).waitFor();
      await button(page, "Delete…").click();
      await button(dialog, "Delete 2 sessions").click();
      await page.locator(".list-row", { hasText: "To be deleted" }).first().waitFor({ state: "detached" });
      check(ids.length === 2, "two sessions were started");
    },
  },
  {
    name: "playground with two columns",
    run: async ({ open }) => {
      const { page } = await open("playground");
      await page.getByLabel("Message", { exact: true }).fill("Compare two settings");
      const second = page.getByRole("region", { name: "column B" });
      await second.getByLabel("instructions").fill("Answer briefly.");
      await button(page, /Run 2 side by side/).click();
      for (const name of ["column A", "column B"]) {
        const column = page.getByRole("region", { name });
        await until(
          `${name} answers`,
          async () => text(column),
          (whole) => whole.includes("You said: Compare two settings"),
        );
        await button(column, /^Keep$/).waitFor();
      }
      await button(second, /^Keep$/).click();
      await second.getByRole("link", { name: "Open the session" }).click();
      await seeText(page, "Compare two settings");
    },
  },
  {
    name: "playground with forks of a session",
    run: async ({ open }) => {
      const { page } = await open();
      await startScenario(page, "Question");
      await button(talk(page), "Kumo Ramen").click();
      await seeText(page, "The table is booked");
      await seeEnd(page);
      await button(page, "Open in playground").click();
      await page.getByLabel("Message", { exact: true }).fill("Thank you");
      await button(page, /Run 2 side by side/).click();
      const column = page.getByRole("region", { name: "column A" });
      await button(column, /^Keep$/).click();
      await column.getByRole("link", { name: "Open the session" }).click();
      await seeText(page, "Thank you");
      await page.getByRole("link", { name: "Compare", exact: true }).waitFor();
    },
  },
  {
    name: "the overview shows the turns",
    run: async ({ open, server }) => {
      const { page } = await open();
      await startSession(page, "Count this turn");
      await seeText(page, "You said: Count this turn");
      await seeEnd(page);
      await page.getByRole("link", { name: "Overview" }).click();
      await until(
        "the overview counts turns",
        async () => text(page.getByRole("main")),
        (whole) => /scenarios|default/.test(whole) && /completed/.test(whole),
      );
      check((await read(server, "overview")).includes("completed"), "the server counts no turn");
      // The server runs a worker, which has nothing to do.
      const workers = page.locator("section.panel", { hasText: "Workers" });
      await workers.getByText("idle", { exact: true }).waitFor();
      await workers.getByText(/^0 of [\d,]+ turns$/).waitFor();
      await page.getByRole("status").filter({ hasText: "1 idle worker" }).waitFor();
      const chart = page.locator("figure.chart", { hasText: "Turns by outcome" });
      const titles = await chart.locator(".axis-title").allTextContents();
      check(
        titles.length === 2 && titles[0] === "turns" && /^local time, a bar for \d+ \w+$/.test(titles[1] ?? ""),
        `the axes are named ${titles.join(" and ")}`,
      );
      await page.getByRole("link", { name: /^Waiting/ }).click();
      await page.waitForURL(/\/studio\/waiting/);
      await page.getByRole("heading", { level: 1 }).waitFor();
    },
  },
  {
    name: "export a replay file and open it without a server",
    run: async ({ open }) => {
      const { page } = await open();
      await startScenario(page, "Parallel tools");
      await seeText(page, "The room Belém is free");
      await seeEnd(page);
      const file = join(folder, "record.json");
      const [download] = await Promise.all([page.waitForEvent("download"), button(page, "Export record").click()]);
      await download.saveAs(file);
      check(readFileSync(file, "utf8").includes("get_weather"), "the record does not contain the tool");
      const { page: second } = await open("replay");
      const requests: string[] = [];
      second.on("request", (request) => {
        // Parts of the page itself are files of the studio.
        if (!request.url().includes("/studio/")) requests.push(request.url());
      });
      await second.locator("input[type=file]").setInputFiles(file);
      await until(
        "the replay file is shown",
        async () => text(second.getByRole("main").first()),
        (whole) => whole.includes("The room Belém is free") && whole.includes("get_weather"),
      );
      check(requests.length === 0, `opening a file caused requests: ${requests.join(", ")}`);
      await second.locator("input[type=file]").setInputFiles({
        name: "broken.json",
        mimeType: "application/json",
        buffer: Buffer.from("{}"),
      });
      await second.getByRole("alert").waitFor();
    },
  },
];

/** The parts of the timeline of the newest turn that flows read. */
type Timeline = {
  readonly turn: { readonly acceptedAt: number };
  readonly claims: readonly { readonly owner: string }[];
  readonly effects: readonly {
    readonly endedAt: number | null;
    readonly discarded: readonly { readonly startedAt: number | null; readonly endedAt: number | null }[];
  }[];
};

async function timelineOf(server: Pick<Server, "url">, id: string): Promise<Timeline> {
  const turns: { readonly items: readonly { readonly turnId: string }[] } = JSON.parse(
    await read(server, `sessions/${id}/turns`),
  );
  const timeline: Timeline = JSON.parse(
    await read(server, `sessions/${id}/turns/${turns.items[0]?.turnId ?? ""}/timeline`),
  );
  return timeline;
}
