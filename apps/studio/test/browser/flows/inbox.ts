// The inbox: calls and questions of all sessions, decided without opening a session; pages, filters in the address, a
// telephone, and what the page asks the server for.

import type { Flow } from "../flow.ts";
import type { Locator, Page } from "playwright-core";

import { join } from "node:path";

import { button, read, text } from "../flow.ts";
import { sidewaysScroll } from "../looks.ts";
import { check, until } from "../watched-page.ts";

const config = join(import.meta.dirname, "../tools.config.ts");

type Address = { readonly url: string };
type Made = { readonly sessionId: string };

async function post({ url }: Address, path: string, body: object = {}): Promise<Made> {
  const response = await fetch(`${url}/${path}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  check(response.ok, `POST /${path} answered ${response.status}`);
  const answer: Made = JSON.parse(await response.text());
  return answer;
}

const rows = (page: Page): Locator => page.getByRole("region", { name: "Waiting calls" }).locator(".inbox-row");
const detail = (page: Page): Locator => page.getByRole("region", { name: "Selected call" });

async function seeRows(page: Page, count: number): Promise<void> {
  await until(
    `${count} calls are listed`,
    async () => rows(page).count(),
    (shown) => shown === count,
  );
}

/** Waits until a session has messages that contain a text. */
async function seeStored(server: Address, id: string, part: string): Promise<void> {
  await until(
    `the session ${id} has ${part}`,
    async () => read(server, `sessions/${id}/messages`),
    (messages) => messages.includes(part),
  );
}

/** Controls that are lower than a finger needs. Links in texts are exempt. */
const lowControls = `[...document.querySelectorAll("main button, main select, main input, main textarea, main a.btn, main .inbox-row, nav.views a")]
  .filter((element) => element.checkVisibility())
  .map((element) => [element.textContent || element.getAttribute("aria-label") || element.id, element.getBoundingClientRect().height])
  .filter(([, height]) => height < 43.9)`;

export const inboxFlows: readonly Flow[] = [
  {
    name: "the overview shows how many turns wait for a limit",
    run: async ({ open, start }) => {
      const limited = join(import.meta.dirname, "../limits.config.ts");
      const server = await start({ database: "queue.db", config: limited });
      for (let index = 0; index < 3; index += 1) {
        const { status } = await fetch(`${server.url}/sessions`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ input: "Use hold" }),
        });
        check(status < 300, `POST /sessions answered ${status}`);
      }
      const { page } = await open("overview", server);
      await page.getByText("2 turns wait: 2 for a limit. The oldest has waited for").waitFor();
      server.signal("let-go");
      await page.getByText("No turn waits for a worker or a limit.").waitFor();
    },
  },
  {
    name: "the inbox: approve with edited arguments, deny, and answer a question",
    run: async ({ open, start }) => {
      const server = await start({ database: "inbox.db" });
      const approved = await post(server, "scenarios/approval");
      const denied = await post(server, "scenarios/approval");
      const asked = await post(server, "scenarios/question");
      const { page } = await open("waiting", server);
      await seeRows(page, 3);
      const row = (id: string): Locator => page.locator(`.inbox-row[href*="session=${id}"]`);
      // What runs and with which arguments is in the list.
      const listed = await text(row(approved.sessionId));
      check(/issue_refund/.test(listed) && /189/.test(listed) && /EUR/.test(listed), `the row says ${listed}`);
      check(/restaurant/.test(await text(row(asked.sessionId))), "the row of the question does not contain it");

      await row(approved.sessionId).click();
      await detail(page).getByText("May decide").waitFor();
      await detail(page).locator("dd", { hasText: "arrived broken" }).waitFor();
      await detail(page)
        .getByLabel(/^amount/)
        .fill("120.5");
      await button(detail(page), "Approve edited").click();
      await detail(page).getByText("This call no longer waits.").waitFor();
      await seeStored(server, approved.sessionId, "120.50 EUR to the card");
      await seeRows(page, 2);

      // What was answered leaves no form behind: the next one is opened by the reader.
      check((await button(detail(page), /^Approve/).count()) === 0, "the form of another call is shown");
      await detail(page)
        .getByRole("link", { name: /^Next:/ })
        .click();
      await row(denied.sessionId).click();
      await button(detail(page), "Deny with reason…").click();
      await detail(page).getByLabel("Reason, which the model reads").fill("No photo");
      await page.keyboard.press("Enter");
      await detail(page).getByText("This call no longer waits.").waitFor();
      await seeStored(server, denied.sessionId, "No photo");

      await row(asked.sessionId).click();
      await detail(page).getByText("May answer").waitFor();
      await detail(page).getByLabel("Answer", { exact: true }).fill("Kumo Ramen, by the window");
      await page.keyboard.press("Enter");
      await seeStored(server, asked.sessionId, "Kumo Ramen, by the window");
      await seeRows(page, 0);
      await page.getByText("Nothing waits.").waitFor();
    },
  },
  {
    name: "the inbox: a call that others decide leaves no form of another call in its place",
    run: async ({ open, start }) => {
      const server = await start({ database: "inbox-others.db", config });
      const first = await post(server, "sessions", { input: "Use place_order" });
      const second = await post(server, "sessions", { input: "Use scan_badge" });
      const { page } = await open("waiting", server);
      await seeRows(page, 2);
      await page.locator(`.inbox-row[href*="session=${first.sessionId}"]`).click();
      await button(detail(page), /^Approve$/).waitFor();
      const {
        session,
      }: {
        readonly session: { readonly pendingToolCalls: readonly { readonly id: string; readonly digest: string }[] };
      } = JSON.parse(await read(server, `sessions/${first.sessionId}`));
      const { id: toolCallId = "", digest } = session.pendingToolCalls[0] ?? {};
      await post(server, `sessions/${first.sessionId}/decisions`, { toolCallId, digest, type: "deny" });
      await detail(page).getByText("This call no longer waits.").waitFor();
      await seeRows(page, 1);
      check((await detail(page).locator(".card").count()) === 0, "a form is shown for a call that is decided");
      // A manual tool is answered here, too.
      await detail(page).getByRole("link", { name: "Next: scan_badge" }).click();
      await detail(page).getByLabel("Result of the tool").fill("Badge 17");
      await button(detail(page), "Send result").click();
      await seeStored(server, second.sessionId, "The tool answered: Badge 17");
    },
  },
  {
    name: "the inbox: pages, filters in the address, and few requests",
    run: async ({ open, start }) => {
      const server = await start({ database: "inbox-pages.db", config });
      for (let index = 0; index < 55; index += 1) {
        const input = `Use pay ${JSON.stringify({ amount: index, to: `payee ${index}` })}`;
        await post(server, "sessions", { input, ...(index % 11 === 0 ? { options: { engine: "long" } } : {}) });
      }
      await post(server, "sessions", { input: "Use scan_badge" });
      const watched = await open("waiting", server);
      const { page } = watched;
      await seeRows(page, 50);
      const own = watched.requested.filter((url) => !url.includes("/studio/"));
      const single = own.filter((url) => /\/sessions\/[^/?]/.test(new URL(url).pathname));
      check(single.length === 0, `the list has read single sessions: ${single.join(" ")}`);
      await button(page, "Show more").click();
      await seeRows(page, 56);
      check((await button(page, "Show more").count()) === 0, "there is no further page");

      await button(page, "Manual tools").click();
      await seeRows(page, 1);
      await page.reload();
      await seeRows(page, 1);
      await page.goBack();
      await until(
        "all are listed",
        async () => rows(page).count(),
        (count) => count >= 50,
      );
      await page.getByLabel("Engine").selectOption("long");
      await seeRows(page, 5);
      // A second tab shows the same selection.
      await rows(page).first().click();
      const heading = await text(detail(page).locator(".card .head"));
      const other = await page.context().newPage();
      await other.goto(page.url());
      await seeRows(other, 5);
      check((await text(detail(other).locator(".card .head"))) === heading, "the second tab shows another call");
      await other.close();
      await page.goBack();
      await detail(page).getByText("Select a call").waitFor();

      // An idle inbox with a selected call is as quiet as other pages.
      await rows(page).first().click();
      await detail(page).locator(".card .head").waitFor();
      await page.waitForTimeout(12_000);
      const before = watched.requested.length;
      await page.waitForTimeout(30_000);
      const count = watched.requested.length - before;
      console.log(`       ${count} requests in half a minute of an idle inbox`);
      check(count <= 8, `an idle inbox sent ${count} requests in half a minute`);
    },
  },
  {
    name: "the inbox on a telephone: list, call, decision, and nothing too small or too wide",
    run: async ({ open, start }) => {
      const server = await start({ database: "inbox-phone.db", config });
      const long = { amount: 5, to: "x".repeat(300), note: "Rent for November, with a longer text", lines: ["a", "b"] };
      const paid = await post(server, "sessions", { input: `Use pay ${JSON.stringify(long)}` });
      await post(server, "sessions", { input: "Use place_order" });
      server.signal("bank-answers");
      const { page } = await open("waiting", server, { width: 390, height: 844 });
      await seeRows(page, 2);
      const seeFits = async (): Promise<void> => {
        const faults = [...(await sidewaysScroll(page)), ...(await page.evaluate<readonly unknown[]>(lowControls))];
        check(faults.length === 0, `too wide or too low: ${JSON.stringify(faults)}`);
      };
      await seeFits();
      await page.locator(`.inbox-row[href*="session=${paid.sessionId}"]`).click();
      await button(detail(page), /^Approve$/).waitFor();
      check(!(await rows(page).first().isVisible()), "the list is shown beside the call");
      await seeFits();
      await button(detail(page), "Deny with reason…").click();
      await seeFits();
      await button(detail(page), "Back").click();
      // The back button of the browser, and the link, lead to the list.
      await page.goBack();
      await rows(page).first().waitFor();
      await page.locator(`.inbox-row[href*="session=${paid.sessionId}"]`).click();
      await page.getByRole("link", { name: "All that wait" }).click();
      await page.locator(`.inbox-row[href*="session=${paid.sessionId}"]`).click();
      await detail(page)
        .getByLabel(/^amount/)
        .fill("7");
      await button(detail(page), "Approve edited").click();
      await detail(page).getByText("This call no longer waits.").waitFor();
      await seeFits();
      await seeStored(server, paid.sessionId, "paid:");
    },
  },
];
